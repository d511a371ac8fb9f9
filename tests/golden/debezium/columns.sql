-- For the options that choose, mask, hash, truncate and annotate columns, and that replace the key.
create table people (id int primary key, email varchar(30), name text, secret text, note varchar(5), salary numeric(8,2), photo bytea);
insert into people values (1, 'ada@example.org', 'Ada Lovelace', 'hidden', 'abcde', 100.50, '\x0102030405');

-- stream
insert into people values (2, 'bob@example.org', 'Bob', null, null, null, null);

update people set name = 'Robert' where id = 2;

update people set email = 'rob@example.org' where id = 2;

delete from people where id = 2;
