-- The xml type, apart from the others: not every server is built with it.
create table documents (id int primary key, c_xml xml, a_xml xml[], d_xml xml default '<a/>', n_xml xml not null);
alter table documents alter column c_xml set storage external;
insert into documents values (1, '<a b="c">d</a>', '{<a/>,NULL}', null, '<n/>'), (2, null, null, null, '<n/>');

-- stream
insert into documents values (11, ('<a>' || repeat('x', 3000) || '</a>')::xml, '{<a/>,NULL}', '<d/>', '<n/>');

insert into documents (id, n_xml) values (12, '<n/>');

update documents set d_xml = '<e/>' where id = 11;

delete from documents where id = 11;
