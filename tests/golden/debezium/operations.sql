-- Every operation under every replica identity, keys of every kind, unchanged TOAST, messages.
-- (A double quote inside a table's name is left out: Debezium 3.6.3 fails its snapshot on it.)
create table plain (id int primary key, name text, big text, amount numeric(10,2) not null, made timestamptz not null);
alter table plain alter column big set storage external;
create table full_row (id int primary key, name text, big text, amount numeric(10,2) not null);
alter table full_row alter column big set storage external; alter table full_row replica identity full;
create table by_index (id int primary key, code text not null, name text);
create unique index by_index_code on by_index (code); alter table by_index replica identity using index by_index_code;
create table nothing (id int primary key, name text); alter table nothing replica identity nothing;
create table no_key (a int, b text); alter table no_key replica identity full;
create table no_key_insert_only (a int, b text);
create table unique_only (a int not null, b text not null, c text); create unique index unique_only_b on unique_only (b); alter table unique_only replica identity full;
create table composite (region text, id int, name text, primary key (id, region));
create table toasted (id int primary key, t text, v varchar, b bytea, j jsonb, ta text[], i4 int[], i8 bigint[], u uuid[], other text);
alter table toasted alter column t set storage external, alter column v set storage external, alter column b set storage external, alter column j set storage external,
  alter column ta set storage external, alter column i4 set storage external, alter column i8 set storage external, alter column u set storage external;
create table copied (id int primary key, name text);
create table generated (id int generated always as identity primary key, price numeric(10,2), quantity int, total numeric(12,2) generated always as (price * quantity) stored);
create table "Odd Näme; x" ("Key Col" int primary key, "sel.ect" text, "ünï" text);
create schema "other-schema"; create table "other-schema"."t.1" (id int primary key);
create table empty_last_z (id int primary key);

insert into plain values (1, 'one', repeat('x', 2100), 1.10, '2024-01-02 03:04:05.678901+00');
insert into full_row values (1, 'one', repeat('x', 2100), 1.10);
insert into no_key values (1, 'one');

-- stream
insert into plain values (2, 'two', repeat('y', 2100), 2.20, '2024-01-02 03:04:05.678901+00');

update plain set name = 'deux' where id = 2;

update plain set name = 'deux', big = 'small now' where id = 2;

update plain set id = 20 where id = 2;

update plain set id = 30, name = 'uno' where id = 1;

delete from plain where id = 20;

insert into plain values (3, 'three', null, 3, '2024-01-02 03:04:05+00'); update plain set name = 'drei' where id = 3; delete from plain where id = 3;

insert into full_row values (2, 'two', repeat('y', 2100), 2.20);

update full_row set name = 'deux' where id = 2;

update full_row set id = 20 where id = 2;

delete from full_row where id = 20;

insert into by_index values (1, 'a', 'one');

update by_index set name = 'uno' where id = 1;

insert into nothing values (1, 'one');

insert into no_key values (2, 'two');

update no_key set b = 'deux' where a = 2;

delete from no_key where a = 2;

insert into no_key_insert_only values (1, 'one');

insert into unique_only values (1, 'b1', 'c1');

update unique_only set c = 'c2' where b = 'b1';

update unique_only set b = 'b2' where b = 'b1';

delete from unique_only;

insert into composite values ('eu', 1, 'one');

update composite set name = 'uno' where id = 1;

update composite set region = 'us' where id = 1;

delete from composite where id = 1;

insert into toasted values (1, repeat('t', 2100), repeat('v', 2100), decode(repeat('ab', 2100), 'hex'), jsonb_build_object('k', repeat('j', 2100)),
  array(select repeat('e', 10) from generate_series(1, 160)), array(select generate_series(1, 540)), array(select generate_series(1, 270)::bigint), array(select 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid from generate_series(1, 135)), 'before');

update toasted set other = 'after' where id = 1;

update toasted set id = 2 where id = 1;

delete from toasted where id = 2;

copy copied from stdin;
1	one
2	two
3	\N

insert into generated (price, quantity) values (1.50, 3);

update generated set quantity = 4 where id = 1;

insert into "Odd Näme; x" values (1, 'a', 'b');

update "Odd Näme; x" set "Key Col" = 2 where "Key Col" = 1;

insert into "other-schema"."t.1" values (1);

insert into plain values (4, 'four', null, 4, '2024-01-02 03:04:05+00'); insert into composite values ('eu', 2, 'two'); insert into plain values (5, 'five', null, 5, '2024-01-02 03:04:05+00');

begin; insert into plain values (6, 'never', null, 6, '2024-01-02 03:04:05+00'); rollback;

begin; insert into plain values (7, 'kept', null, 7, '2024-01-02 03:04:05+00'); savepoint s; insert into plain values (8, 'lost', null, 8, '2024-01-02 03:04:05+00'); rollback to s; commit;

select pg_logical_emit_message(true, 'greeting', 'hello ü'), pg_logical_emit_message(true, 'bytes', '\x00ff'::bytea);

select pg_logical_emit_message(false, 'loose', 'outside');

truncate copied;

truncate plain, composite restart identity cascade;
