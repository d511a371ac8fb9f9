-- Types that only MariaDB has, and its JSON, which is a text.
create table own_types (id uuid primary key, c_uuid uuid, c_json json);

insert into own_types (id, c_uuid, c_json) values ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12', '{"b": 1, "a": [1, 2]}');

-- stream
insert into own_types (id, c_uuid, c_json) values ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a13', null, '[ ]');
