-- For ByLogicalTableRouter: tables that are parts of one logical table.
create table customers_a (id int primary key, name text);
create table customers_b (id int primary key, name text);
create table unrelated (id int primary key, name text);
insert into customers_a values (1, 'Ada');

-- stream
insert into customers_b values (1, 'Bob');

insert into unrelated values (1, 'Cyd');

update customers_b set name = 'Rob' where id = 1;

delete from customers_b where id = 1;
