-- Statements that change definitions, as events of their own, among the rows.
create table orders (id int primary key auto_increment, name varchar(40) not null default 'none', amount decimal(10,2));

insert into orders values (1, 'one', 1.10);

-- stream
alter table orders add column quantity int unsigned not null default 3, add column kind enum('a', 'it''s') character set latin1;

insert into orders values (2, 'two', 2.20, 4, 'a');

create table customers (region char(2), id bigint, joined datetime(3), logo blob, about text, primary key (region, id)) default charset latin1;

alter table orders modify column name varchar(80) null, drop column amount;

insert into orders values (3, 'three', 5, 'it''s');

rename table customers to clients;

insert into clients values ('eu', 1, '2024-01-02 03:04:05.678', 'x', 'y');

create table twin like orders;

alter table oracle.orders change column name title varchar(80) comment 'what it says';

drop table clients;
