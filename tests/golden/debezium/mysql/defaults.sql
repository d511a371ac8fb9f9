-- Column defaults as the schema carries them, and nulls in columns that have one.
create table defaults (
  id int primary key auto_increment, d_tiny tinyint default 7, d_bool bool default true, d_int int not null default 42, d_int_u int unsigned default 4294967295, d_big bigint default -1,
  d_big_u bigint unsigned default 18446744073709551615, d_float float default 1.5, d_double double default 2.5, d_dec decimal(10,2) default 9.99, d_dec_required decimal(10,2) not null default 0,
  d_bit1 bit(1) default b'1', d_bit8 bit(8) default b'10000001', d_char char(5) default 'ab', d_varchar varchar(30) not null default 'it''s "ü"', d_empty varchar(10) not null default '',
  d_enum enum('a','b') default 'b', d_set set('a','b') default 'a,b', d_binary binary(3) default 'ab', d_year year default 2020,
  d_date date default '2020-01-01', d_time time default '01:02:03', d_datetime datetime default '2020-01-01 01:02:03', d_datetime6 datetime(6) default '2020-01-01 01:02:03.123456',
  d_timestamp timestamp not null default '2020-01-01 01:02:03', d_now datetime not null default current_timestamp, d_now6 timestamp(6) not null default current_timestamp(6) on update current_timestamp(6),
  d_zero_date date not null default '0000-00-00', d_zero_null datetime default '0000-00-00 00:00:00', d_null text default null
);

-- stream
insert into defaults (id, d_now, d_now6) values (1, '2024-01-02 03:04:05', '2024-01-02 03:04:05.678901');

insert into defaults (id, d_tiny, d_dec, d_enum, d_date, d_datetime, d_char, d_float, d_bit1, d_now, d_now6)
  values (2, null, null, null, null, null, null, null, null, '2024-01-02 03:04:05', '2024-01-02 03:04:05.678901');

delete from defaults where id = 1;
