-- An outbox table for the EventRouter: payloads of every kind, keys that are null, an update and a delete that do not belong there.
create table outbox (id uuid primary key, aggregatetype varchar(255) not null, aggregateid varchar(255), type varchar(255), payload jsonb, created timestamp, version int, tenant text, part int);
create table other (id int primary key, note text);
insert into outbox values ('00000000-0000-0000-0000-000000000001', 'order', '7', 'OrderPlaced', '{"id": 7, "total": 12.5, "tags": ["a", "b"], "to": {"city": "Köln", "zip": null}, "paid": true}', '2024-01-02 03:04:05.678901', 1, 'acme', 0);

-- stream
insert into outbox values ('00000000-0000-0000-0000-000000000002', 'order', '8', 'OrderPlaced', '{"id": 8, "big": 12345678901, "none": [], "rows": [{"a": 1}, {"a": 2}]}', '2024-01-02 03:04:06', 1, 'acme', 1);

insert into outbox values ('00000000-0000-0000-0000-000000000003', 'customer', null, 'CustomerGone', null, null, 2, null, 0);

insert into outbox values ('00000000-0000-0000-0000-000000000004', 'customer', '9', 'CustomerNamed', '"just a text"', '2024-01-02 03:04:07', 2, 'umbrella', 1);

insert into outbox values ('00000000-0000-0000-0000-000000000005', 'customer', '9', null, '{"mixed": [1, 2.5]}', '2024-01-02 03:04:08', 2, 'umbrella', 1);

update outbox set tenant = 'changed' where aggregateid = '8';

delete from outbox where aggregateid = '8';
