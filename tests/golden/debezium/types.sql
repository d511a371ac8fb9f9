-- Every type of the contract, nullable (all_types) and not (required_types, whose deletes show the fillers).
-- A blank line ends a transaction; everything above "-- stream" is there when the snapshot is taken.
create extension hstore; create extension citext; create extension ltree; create extension isn;
create type mood as enum ('sad', 'so so', 'happy, really');
create domain cents as numeric(12,2);
create domain label as varchar(20);
create type address as (street text, number int);

create table all_types (
  id bigint primary key,
  c_bool boolean, c_int2 smallint, c_int4 integer, c_int8 bigint, c_oid oid, c_float4 real, c_float8 double precision,
  c_numeric numeric, c_numeric_5 numeric(5), c_numeric_10_2 numeric(10,2), c_numeric_38_10 numeric(38,10), c_money money,
  c_bit1 bit(1), c_bit8 bit(8), c_bit17 bit(17), c_varbit bit varying, c_varbit1 bit varying(1), c_varbit12 bit varying(12),
  c_char1 char(1), c_char5 char(5), c_varchar varchar, c_varchar10 varchar(10), c_text text, c_name name, c_qchar "char",
  c_citext citext, c_isbn isbn, c_bytea bytea, c_json json, c_jsonb jsonb, c_uuid uuid,
  c_inet inet, c_cidr cidr, c_macaddr macaddr, c_macaddr8 macaddr8,
  c_int4range int4range, c_int8range int8range, c_numrange numrange, c_tsrange tsrange, c_tstzrange tstzrange, c_daterange daterange,
  c_int4multirange int4multirange, c_mood mood, c_cents cents, c_label label, c_ltree ltree, c_tsvector tsvector, c_tsquery tsquery,
  c_pg_lsn pg_lsn, c_address address, c_point point, c_box box, c_lseg lseg, c_path path, c_polygon polygon, c_circle circle, c_line line,
  c_hstore hstore, c_interval interval,
  c_date date, c_time time, c_time0 time(0), c_time3 time(3), c_time6 time(6), c_timetz timetz, c_timetz3 timetz(3),
  c_timestamp timestamp, c_timestamp0 timestamp(0), c_timestamp3 timestamp(3), c_timestamp6 timestamp(6),
  c_timestamptz timestamptz, c_timestamptz0 timestamptz(0), c_timestamptz3 timestamptz(3), c_timestamptz6 timestamptz(6)
);
create table all_arrays (
  id bigint primary key,
  a_bool boolean[], a_int2 smallint[], a_int4 integer[], a_int8 bigint[], a_oid oid[], a_float4 real[], a_float8 double precision[],
  a_numeric numeric[], a_numeric_10_2 numeric(10,2)[], a_money money[], a_varbit bit varying[],
  a_char5 char(5)[], a_varchar10 varchar(10)[], a_text text[], a_name name[], a_citext citext[], a_bytea bytea[],
  a_json json[], a_jsonb jsonb[], a_uuid uuid[], a_inet inet[], a_cidr cidr[], a_macaddr macaddr[], a_macaddr8 macaddr8[],
  a_int4range int4range[], a_numrange numrange[], a_tsrange tsrange[], a_daterange daterange[], a_mood mood[], a_ltree ltree[],
  a_hstore hstore[], a_interval interval[], a_point point[],
  a_date date[], a_time time[], a_timetz timetz[], a_timestamp timestamp[], a_timestamptz timestamptz[]
);
create table required_types (
  id bigint primary key,
  c_bool boolean not null, c_int2 smallint not null, c_int4 integer not null, c_int8 bigint not null, c_oid oid not null,
  c_float4 real not null, c_float8 double precision not null, c_numeric numeric not null, c_numeric_10_2 numeric(10,2) not null,
  c_money money not null, c_bit1 bit(1) not null, c_bit8 bit(8) not null, c_varbit bit varying not null,
  c_char5 char(5) not null, c_text text not null, c_citext citext not null, c_bytea bytea not null, c_json json not null,
  c_jsonb jsonb not null, c_uuid uuid not null, c_inet inet not null, c_int4range int4range not null,
  c_mood mood not null, c_cents cents not null, c_ltree ltree not null, c_tsvector tsvector not null, c_point point not null, c_hstore hstore not null,
  c_interval interval not null, c_date date not null, c_time time not null, c_time3 time(3) not null, c_timetz timetz not null,
  c_timestamp timestamp not null, c_timestamp3 timestamp(3) not null, c_timestamptz timestamptz not null,
  a_int4 integer[] not null, a_text text[] not null
);

insert into all_types values (1,
  true, -32768, -2147483648, -9223372036854775808, 4294967295, 1.5, -2.25,
  123.4500, 12345, 12345678.90, 1234567890123456789012345678.0123456789, '$-1,234.56',
  B'1', B'10000001', B'10000000000000011', B'101', B'1', B'000000000001',
  'x', 'ab', 'varchar', 'ten', E'text with "quotes", \\ and \t tab, ü, 漢字, 😀', 'a name', 'q',
  'CiText', '978-0-393-04002-9', '\x00ff10', '{"a": 1,  "b": [1,2]}', '{"b": [1,2], "a": 1}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
  '192.168.1.5/24', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05',
  '[1,10)', '[1,10)', '[1.5,2.5]', '["2019-03-31 15:30:00",infinity)', '["2019-03-31 15:30:00+02",)', '[2019-03-31,2019-04-02)',
  '{[1,3),[5,7)}', 'happy, really', 1234.56, 'labelled', 'Top.Science', 'a fat cat', 'fat & rat',
  '16/B374D848', ROW('Main', 5), '(1,2)', '(1,1),(0,0)', '[(0,0),(1,1)]', '((0,0),(1,1))', '((0,0),(1,0),(1,1))', '<(0,0),2>', '{1,2,3}',
  'a=>1, "b c"=>NULL', '1 year 2 months 3 days 04:05:06.78',
  '2016-11-04', '13:51:30.123456', '13:51:30', '13:51:30.123', '13:51:30.123456', '13:51:30.123789+02', '13:51:30.123+02',
  '2016-11-04 13:51:30.123456', '2016-11-04 13:51:30', '2016-11-04 13:51:30.123', '2016-11-04 13:51:30.12',
  '2016-11-04 13:51:30.123456+02', '2016-11-04 13:51:30+02', '2016-11-04 13:51:30.12+02', '2016-11-04 13:51:30+02');
insert into all_types (id) values (2);

insert into all_arrays values (1,
  '{t,f,NULL}', '{1,NULL}', '{1,NULL,3}', '{1,NULL}', '{1,2}', '{1.5,NULL}', '{1.5,NULL}',
  '{1.10,2,NULL}', '{1.10,2,NULL}', '{1.10}', '{101}',
  '{ab,NULL}', '{ten}', E'{"a b","quo\\"te",NULL,"NULL",""}', '{n}', '{Ci}', '{"\\x00ff"}',
  '{"{\"a\": 1}"}', '{"{\"a\": 1}"}', '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,NULL}', '{192.168.1.5}', '{10.0.0.0/8}', '{08:00:2b:01:02:03}', '{08:00:2b:01:02:03:04:05}',
  '{"[1,10)"}', '{"[1.5,2.5]"}', '{"[2019-03-31 15:30:00,infinity)"}', '{"[2019-03-31,2019-04-02)"}', '{sad,"so so"}', '{Top.Science}',
  '{"a=>1"}', '{1 day}', '{"(1,2)"}',
  '{2016-11-04,NULL}', '{13:51:30.123456}', '{13:51:30+02}', '{"2016-11-04 13:51:30.123456",NULL}', '{"2016-11-04 13:51:30.123456+02"}');
insert into all_arrays (id, a_int4, a_text) values (2, '{}', '{}');
insert into all_arrays (id) values (3);

-- stream
insert into all_types select (jsonb_populate_record(t, '{"id": 11}')).* from all_types t where id = 1;

insert into all_types (id) values (12);

insert into all_types (id, c_float4, c_float8, c_numeric, c_numeric_10_2, c_bool, c_int2, c_int4, c_int8, c_text, c_bytea, c_bit8, c_char5, c_hstore)
  values (13, 'NaN', 'Infinity', 0, 0, false, 32767, 2147483647, 9223372036854775807, '', '', B'00000000', '', '');

insert into all_types (id, c_float4, c_float8, c_numeric, c_numeric_10_2, c_numeric_5, c_interval, c_time, c_timetz, c_date, c_timestamp, c_timestamptz)
  values (14, '-Infinity', 1e21, -0.000001, -1.1, -99999, '-1 month -2 days -00:00:00.000001', '24:00:00', '24:00:00+00', '4713-01-01 BC', '4713-01-01 00:00:00 BC', '4713-01-01 00:00:00+00 BC');

insert into all_types (id, c_float4, c_float8, c_numeric, c_date, c_timestamp, c_timestamptz, c_money, c_interval)
  values (15, 3.4028235e38, 2.2250738585072014e-308, 1e30, '9999-12-31', '9999-12-31 23:59:59.999999', '21016-11-04 13:51:30.123456+00', '92233720368547758.07', '-178000000 years');

insert into all_types (id, c_float4, c_float8, c_date, c_interval, c_numeric)
  values (16, 0.1, 0.1, '1582-10-10', '1 month', 100), (17, 16777216, 123456789012345680, '0001-01-01', '0.000001 seconds', 12300), (18, 1e-5, 1e-5, '1969-12-31', '25:00:00', 1.500);

insert into all_arrays select (jsonb_populate_record(t, '{"id": 11}')).* from all_arrays t where id = 1;

insert into all_arrays (id, a_int4, a_text) values (12, '{}', '{}');

insert into all_arrays (id) values (13);

insert into required_types values (1, true, 1, 2, 3, 4, 1.5, 2.5, 1.50, 2.50, '1.00', B'1', B'10101010', B'1', 'abc', 'text', 'ci', '\x01', '{}', '{}',
  'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '10.0.0.1', '[1,2)', 'sad', 1.00, 'Top', 'cat', '(1,2)', 'a=>1', '1 day', '2020-01-01', '01:02:03', '01:02:03', '01:02:03+00',
  '2020-01-01 01:02:03', '2020-01-01 01:02:03', '2020-01-01 01:02:03+00', '{1}', '{a}');

delete from required_types where id = 1;

delete from all_types where id = 11;
