-- A partitioned table and its partitions.
create table metrics (day date not null, id int not null, v text, primary key (day, id)) partition by range (day);
create table metrics_2024 partition of metrics for values from ('2024-01-01') to ('2025-01-01');
create table metrics_2025 partition of metrics for values from ('2025-01-01') to ('2026-01-01');
insert into metrics values ('2024-05-01', 1, 'old');

-- stream
insert into metrics values ('2024-06-01', 2, 'a'), ('2025-06-01', 3, 'b');

update metrics set v = 'c' where id = 2;

update metrics set day = '2025-07-01' where id = 2;

delete from metrics where id = 3;
