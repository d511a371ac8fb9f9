-- Every type that MySQL and MariaDB share, nullable and not; character sets; dates that no calendar has.
-- A blank line ends a block; everything above "-- stream" is there when the snapshot is taken.
create table numbers (
  id int primary key, c_tiny tinyint, c_tiny_u tinyint unsigned, c_tiny1 tinyint(1), c_bool bool, c_small smallint, c_small_u smallint unsigned,
  c_medium mediumint, c_medium_u mediumint unsigned, c_int int, c_int_u int unsigned, c_int_z int(6) zerofill, c_big bigint, c_big_u bigint unsigned,
  c_dec decimal, c_dec10_2 decimal(10,2), c_dec10_2_u decimal(10,2) unsigned, c_dec38_10 decimal(38,10), c_dec65_30 decimal(65,30), c_numeric numeric(5,5),
  c_float float, c_float_m_d float(7,3), c_float24 float(24), c_float25 float(25), c_double double, c_double_m_d double(12,4), c_real real,
  c_bit1 bit(1), c_bit8 bit(8), c_bit13 bit(13), c_bit64 bit(64)
);
create table numbers_required (
  id bigint unsigned primary key, c_tiny tinyint not null, c_tiny_u tinyint unsigned not null, c_small_u smallint unsigned not null, c_int_u int unsigned not null,
  c_big_u bigint unsigned not null, c_dec10_2 decimal(10,2) not null, c_float float not null, c_double double not null, c_bit1 bit(1) not null, c_bit13 bit(13) not null
);
create table texts (
  id varchar(20) primary key, c_char char(10), c_varchar varchar(30), c_varchar300 varchar(300), c_tinytext tinytext, c_text text, c_mediumtext mediumtext, c_longtext longtext,
  c_latin1 varchar(30) character set latin1, c_ascii varchar(30) character set ascii, c_ucs2 varchar(30) character set ucs2, c_utf16 varchar(30) character set utf16,
  c_utf8mb3 varchar(30) character set utf8mb3, c_gbk char(30) character set gbk, c_sjis text character set sjis, c_cp1251 text character set cp1251,
  c_bin_collated varchar(30) collate utf8mb4_bin,
  c_binary binary(8), c_varbinary varbinary(20), c_tinyblob tinyblob, c_blob blob, c_mediumblob mediumblob, c_longblob longblob,
  c_enum enum('small','it''s','ä b',''), c_set set('a','b c','ü'), c_enum_1251 enum('я','b') character set cp1251
);
create table times (
  id int primary key, c_date date, c_time time, c_time1 time(1), c_time3 time(3), c_time6 time(6), c_datetime datetime, c_datetime1 datetime(1), c_datetime3 datetime(3),
  c_datetime4 datetime(4), c_datetime6 datetime(6), c_timestamp timestamp null, c_timestamp1 timestamp(1) null, c_timestamp3 timestamp(3) null, c_timestamp6 timestamp(6) null, c_year year
);
create table times_required (
  id int primary key, c_date date not null, c_time time not null, c_datetime datetime not null, c_datetime6 datetime(6) not null, c_timestamp timestamp not null default '2001-01-01 00:00:00', c_year year not null
);
create table shapes (
  id int primary key, c_point point, c_geometry geometry, c_line linestring, c_polygon polygon, c_points multipoint, c_collection geometrycollection, c_required point not null
);

insert into numbers values (1, -128, 255, 1, true, -32768, 65535, -8388608, 16777215, -2147483648, 4294967295, 42, -9223372036854775808, 18446744073709551615,
  -9999999999, -12345678.90, 0.01, -1234567890123456789012345678.0123456789, 99999999999999999999999999999999999.999999999999999999999999999999, 0.99999,
  0.5, 1234.567, 1.5, 0.1, 1e100, 12345678.1234, -0.25, 1, b'10000001', b'1000000000001', 18446744073709551615);
insert into numbers (id) values (2);
insert into numbers_required values (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
insert into texts values ('one', 'c  ', 'it''s "ü" \\ 🙂', 'v', 'tiny', 'text\nline', 'medium', 'long', 'äßñ€', 'ascii', '漢字', '漢字🙂', '€ä', '漢字', 'カナ', 'ЖЩя', 'Bin',
  'a', 'b\0c', x'00', x'00ff10', x'', x'deadbeef', 'it''s', 'a,ü', 'я');
insert into texts (id) values ('two');
insert into times values (1, '2024-02-29', '12:34:56', '12:34:56.7', '12:34:56.789', '12:34:56.789012', '2024-02-29 12:34:56', '2024-02-29 12:34:56.7', '2024-02-29 12:34:56.789',
  '2024-02-29 12:34:56.7890', '2024-02-29 12:34:56.789012', '2024-02-29 12:34:56', '2024-02-29 12:34:56.7', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789012', 2024);
insert into times (id) values (2);
insert into times_required values (1, '1969-12-31', '00:00:00', '1969-12-31 23:59:59', '1969-12-31 23:59:59.999999', '1970-01-01 00:00:01', 1901);
insert into shapes values (1, point(1.5, -2), st_geomfromtext('POINT(3 4)'), st_geomfromtext('LINESTRING(0 0,1 1)'), st_geomfromtext('POLYGON((0 0,1 0,1 1,0 0))'),
  st_geomfromtext('MULTIPOINT(0 0,1 1)'), st_geomfromtext('GEOMETRYCOLLECTION(POINT(1 2))'), point(0, 0));
insert into shapes (id, c_required) values (2, st_geomfromtext('POINT(7 8)', 4326));

-- stream
insert into numbers values (3, 127, 0, 2, false, 32767, 0, 8388607, 0, 2147483647, 0, 0, 9223372036854775807, 9223372036854775808,
  9999999999, 12345678.90, 99999999.99, 1234567890123456789012345678.0123456789, -99999999999999999999999999999999999.999999999999999999999999999999, 0.00001,
  1.1, -1234.567, 16777216, 1.1, -1e-100, -0.0001, 1e10, 0, b'0', b'1', 0);

insert into numbers (id) values (4);

update numbers set c_tiny = 0, c_float = 3.4e38, c_double = 0.1, c_big_u = 18446744073709551614, c_dec65_30 = 0 where id = 1;

insert into numbers_required values (18446744073709551615, -1, 255, 65535, 4294967295, 18446744073709551615, -0.01, 1.1, 1.1, 1, 8191);

delete from numbers_required where id = 1;

insert into texts values ('three', 'ä', '', repeat('x', 300), '', '', '', repeat('long ', 60), 'ÿ', '', '', '🙂', '', '', '', '', 'BIN', x'0102030405060708', x'20', x'20', repeat('b', 300), x'ff', x'', '', '', 'b');

insert into texts (id) values ('four');

update texts set c_enum = 'nothing of the kind', c_set = 'a,b c,ü', c_binary = x'6100' where id = 'one';

insert into times values (3, '1000-01-01', '-838:59:59', '-00:00:00.1', '838:59:59', '-12:34:56.789012', '1000-01-01 00:00:00', '9999-12-31 23:59:59.9', '1969-12-31 23:59:59.999',
  '2024-02-29 12:34:56.0001', '1969-12-31 23:59:59.999999', '1970-01-01 00:00:01', '2038-01-19 03:14:07.9', '2024-02-29 12:34:56.100', '2038-01-19 03:14:07.999999', 2155);

insert into times (id) values (4);

insert into times (id, c_date, c_datetime, c_datetime6, c_timestamp, c_year) values (5, '0000-00-00', '0000-00-00 00:00:00', '2024-00-00 00:00:00', 0, 0);

insert into times_required values (2, '0000-00-00', '24:00:00', '0000-00-00 00:00:00', '2024-00-01 00:00:00', 0, 0);

delete from times_required where id = 1;

insert into shapes values (3, st_geomfromtext('POINT(1 2)', 4326), st_geomfromtext('LINESTRING(0 0,2 2)'), null, null, null, null, point(1e10, 0.1));
