-- Values that have no number: infinities of dates and times, NaN and infinities of numeric.
create table infinite (id int primary key, c_date date, c_timestamp timestamp, c_timestamp3 timestamp(3), c_timestamptz timestamptz);
insert into infinite values (1, null, 'infinity', 'infinity', 'infinity'), (2, null, '-infinity', '-infinity', '-infinity');

-- stream
insert into infinite values (11, 'infinity', 'infinity', 'infinity', 'infinity');

insert into infinite values (12, '-infinity', '-infinity', '-infinity', '-infinity');

create table not_numbers (id int primary key, c_numeric numeric, c_float8 double precision);
insert into not_numbers values (1, 'NaN', 'NaN'), (2, 'Infinity', 'Infinity'), (3, '-Infinity', '-Infinity');

create table not_numbers_constrained (id int primary key, c_numeric_10_2 numeric(10,2));
insert into not_numbers_constrained values (1, 'NaN');
