-- Dates and times that nanoseconds in 64 bits can hold: 1677 to 2262.
create table times (id int primary key, c_date date, c_time time, c_time0 time(0), c_time3 time(3), c_timetz timetz,
  c_timestamp timestamp, c_timestamp0 timestamp(0), c_timestamp3 timestamp(3), c_timestamptz timestamptz, c_timestamptz0 timestamptz(0),
  a_date date[], a_timestamp timestamp[], a_timestamptz timestamptz[], n_timestamp timestamp not null default '2020-01-02 03:04:05.678901', n_time time not null default '04:05:06.789');
insert into times values (1, '2016-11-04', '13:51:30.123456', '13:51:30', '13:51:30.123', '13:51:30.123789+02', '2016-11-04 13:51:30.123456', '2016-11-04 13:51:30', '2016-11-04 13:51:30.123',
  '2016-11-04 13:51:30.123456+02', '2016-11-04 13:51:30+02', '{2016-11-04,NULL,1969-12-31}', '{"2016-11-04 13:51:30.123456",NULL}', '{"2016-11-04 13:51:30.1+02"}');
insert into times (id, c_date, c_time, c_timestamp, c_timestamptz) values (2, '1677-09-22', '00:00:00', '1677-09-22 00:00:00.000001', '1969-12-31 23:59:59.999999+00');

-- stream
insert into times values (11, '2016-11-04', '13:51:30.123456', '13:51:30', '13:51:30.123', '13:51:30.123789+02', '2016-11-04 13:51:30.123456', '2016-11-04 13:51:30', '2016-11-04 13:51:30.123',
  '2016-11-04 13:51:30.123456+02', '2016-11-04 13:51:30+02', '{2016-11-04,NULL,1969-12-31}', '{"2016-11-04 13:51:30.123456",NULL}', '{"2016-11-04 13:51:30.1+02"}');

insert into times (id, c_date, c_time, c_timestamp, c_timestamptz) values (12, '2262-04-11', '23:59:59.999999', '2262-04-11 23:47:16.854775', '2262-04-11 23:47:16.854775+00');

update times set c_time3 = '24:00:00', c_timestamp = null where id = 12;

delete from times where id = 12;
