-- Every operation, keys of every kind, events of many rows, transactions.
create table plain (id int primary key auto_increment, name varchar(40), amount decimal(10,2) not null, made datetime(6) not null);
create table composite (region varchar(5), id int, name varchar(20), primary key (id, region));
create table no_key (a int, b varchar(20));
create table unique_only (a int not null, b varchar(20) not null, c text, unique key by_b (b));
create table unique_nullable (a int, b varchar(20), unique key by_b (b));
create table computed (id int primary key auto_increment, price decimal(10,2), quantity int, total decimal(12,2) as (price * quantity) stored, half decimal(12,2) as (price / 2) virtual);
create table `Odd Näme; x` (`Key Col` int primary key, `sel.ect` text, `ünï` text);
create table upper_case (ID int primary key, Name text);
create table empty_last_z (id int primary key);

insert into plain values (1, 'one', 1.10, '2024-01-02 03:04:05.678901'), (2, 'zwei', 2.20, '2024-01-02 03:04:05.678901');
insert into no_key values (1, 'one');
insert into composite values ('eu', 0, 'zero');
insert into computed (price, quantity) values (1.50, 3);

-- stream
insert into plain values (3, 'two', 2.20, '2024-01-02 03:04:05.678901');

update plain set name = 'deux' where id = 3;

update plain set id = 20 where id = 3;

update plain set id = 30, name = 'uno' where id = 1;

delete from plain where id = 20;

insert into plain values (4, 'a', 1, '2024-01-02 03:04:05'), (5, 'b', 2, '2024-01-02 03:04:05'), (6, null, 3, '2024-01-02 03:04:05');

update plain set amount = amount + 1 where id in (4, 5, 6);

update plain set id = id + 100 where id in (4, 5) order by id desc;

replace into plain values (6, 'replaced', 9, '2024-01-02 03:04:05');

insert into plain values (6, 'again', 9, '2024-01-02 03:04:05') on duplicate key update name = 'merged';

delete from plain where id > 100;

insert into no_key values (2, 'two'), (2, 'two');

update no_key set b = 'deux' where a = 2;

delete from no_key where a = 2;

insert into unique_only values (1, 'b1', 'c1');

update unique_only set c = 'c2' where b = 'b1';

update unique_only set b = 'b2' where b = 'b1';

delete from unique_only;

insert into unique_nullable values (1, null);

insert into composite values ('eu', 1, 'one');

update composite set name = 'uno' where id = 1;

update composite set region = 'us' where id = 1;

delete from composite where id = 1;

insert into computed (price, quantity) values (2.50, 3);

update computed set quantity = 4 where id = 1;

insert into `Odd Näme; x` values (1, 'a', 'b');

update `Odd Näme; x` set `Key Col` = 2 where `Key Col` = 1;

insert into upper_case values (1, 'a');

begin; insert into plain values (40, 'four', 4, '2024-01-02 03:04:05'); insert into composite values ('eu', 2, 'two'); insert into plain values (50, 'five', 5, '2024-01-02 03:04:05'); update plain set name = 'cinq' where id = 50; commit;

begin; insert into plain values (60, 'never', 6, '2024-01-02 03:04:05'); rollback;

begin; insert into plain values (70, 'kept', 7, '2024-01-02 03:04:05'); savepoint s; insert into plain values (80, 'lost', 8, '2024-01-02 03:04:05'); rollback to savepoint s; commit;

truncate table composite;

insert into composite values ('eu', 3, 'after');
