-- Column defaults as the schema carries them, and nulls in columns that have one.
create type mood as enum ('sad', 'ok');
create table defaults (
  id serial primary key, d_bool boolean default true, d_int2 smallint default 7, d_int4 int not null default 42, d_int8 bigint default -1,
  d_float4 real default 1.5, d_float8 double precision default 2.5, d_numeric numeric default 1.5, d_numeric_10_2 numeric(10,2) default 9.99,
  d_numeric_10_2_required numeric(10,2) not null default 0,
  d_text text default 'hi ''there''', d_varchar varchar(10) not null default 'v', d_char5 char(5) default 'ab', d_bit8 bit(8) default B'10000001', d_bit1 bit(1) default B'1',
  d_json json default '{"a": 1}', d_jsonb jsonb not null default '{}', d_uuid uuid default gen_random_uuid(),
  d_uuid_literal uuid default 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', d_date date default '2020-01-01', d_time time default '01:02:03', d_timestamp timestamp default '2020-01-01 01:02:03',
  d_timestamp_now timestamp not null default now(), d_timestamptz timestamptz not null default now(), d_timestamptz_literal timestamptz default '2020-01-01 01:02:03+00',
  d_current_date date default current_date, d_current_timestamp timestamptz default current_timestamp, d_interval interval default '1 day', d_mood mood default 'ok', d_bytea bytea default '\x01', d_inet inet default '10.0.0.1',
  d_array int[] default '{1,2}', d_null text default null, d_expression int default 1 + 2, d_cast text default 5::text
);

-- stream
insert into defaults (id, d_uuid, d_timestamp_now, d_timestamptz, d_current_date, d_current_timestamp)
  values (1, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12', '2024-01-02 03:04:05', '2024-01-02 03:04:05+00', '2024-01-02', '2024-01-02 03:04:05+00');

insert into defaults (id, d_int4, d_varchar, d_jsonb, d_timestamp_now, d_timestamptz, d_bool, d_int2, d_text, d_numeric_10_2, d_uuid, d_date, d_mood, d_numeric, d_json, d_current_date, d_current_timestamp)
  values (2, 1, 'x', '[]', '2024-01-02 03:04:05', '2024-01-02 03:04:05+00', null, null, null, null, null, null, null, null, null, null, null);

delete from defaults where id = 1;
