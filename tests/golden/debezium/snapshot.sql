-- Markers of a snapshot: several tables, one of them empty, the last one empty too.
create table s1 (id int primary key, v text); create table s2_empty (id int primary key);
create table s3 (id int primary key); create table s4_empty (id int primary key);
insert into s1 values (1, 'a'), (2, 'b'), (3, null); insert into s3 values (1);

-- stream
insert into s4_empty values (1);
