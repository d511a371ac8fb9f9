-- MySQL's binary JSON: every kind of value, as Debezium prints it.
create table documents (id int primary key, doc json, required json not null);

insert into documents values (1, '{"b": 1, "a": [1, 2.5, null, true, "x"], "ü": {"n": {}}, "e": []}', '{}');
insert into documents values (2, null, '[]');

-- stream
insert into documents values (3, '{"b": 1, "a": [1, 2.5, null, true, "x"], "ü": {"n": {}}, "e": []}', '{}');

insert into documents values (4, '[18446744073709551615, -9223372036854775808, 65536, -32769, 1e100, 1.0, 0.1, 100.0]', '"text with \\"quotes\\" and ü 🙂"');

insert into documents values (5, json_object('d', cast('2024-02-29' as date), 't', cast('12:34:56.789' as time(6)), 'dt', cast('2024-02-29 12:34:56' as datetime(6)), 'dec', cast(1.10 as decimal(10,2)), 'bin', cast('ab' as binary)), 'null');

insert into documents values (6, json_quote(repeat('long ', 100)), 'true');
