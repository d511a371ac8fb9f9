-- For ExtractNewRecordState: every operation, whole and keyed old rows, a key that changes, a truncate.
create table item (id int primary key, name text, price numeric(8,2) not null default 1.50);
create table whole (id int primary key, name text, region text);
alter table whole replica identity full;
insert into item values (1, 'one', 1.00);
insert into whole values (1, 'one', 'north');

-- stream
insert into item values (2, 'two', 2.00);

insert into whole values (2, 'two', 'south');

update item set name = 'zwei' where id = 2;

update whole set name = 'zwei' where id = 2;

update item set id = 3 where id = 2;

delete from item where id = 3;

delete from whole where id = 2;

truncate item;
