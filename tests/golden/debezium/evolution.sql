-- A table that changes its shape between its rows.
create table shifting (id int primary key, a text);
insert into shifting values (1, 'one');

-- stream
insert into shifting values (2, 'two');

alter table shifting add column b int;

insert into shifting values (3, 'three', 3);

alter table shifting add column c text not null default 'filled';

insert into shifting values (4, 'four', 4);

alter table shifting drop column a;

update shifting set b = 5 where id = 4;

alter table shifting rename column b to bb;

insert into shifting values (5, 6, 'six');

alter table shifting alter column bb type bigint;

insert into shifting values (6, 70000000000, 'seven');

update shifting set bb = 0 where bb is null;

alter table shifting drop constraint shifting_pkey, add primary key (id, bb);

insert into shifting values (7, 7, 'eight');

create table newborn (id int primary key, note text);
insert into newborn values (1, 'first');

drop table newborn;
