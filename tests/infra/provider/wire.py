"""Messages of Terraform's plugin protocol 6, as far as they are spoken here."""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "tfplugin6"
# Name: field number type; * repeats it, % is a map from strings. Enumerations are sent as int64.
_MESSAGES = """
DynamicValue: msgpack 1 bytes, json 2 bytes
Step: attribute_name 1 string, element_key_string 2 string, element_key_int 3 int64
AttributePath: steps 1 *Step
Diagnostic: severity 1 int64, summary 2 string, detail 3 string, attribute 4 AttributePath
RawState: json 1 bytes
Attribute: name 1 string, type 2 bytes, required 4 bool, optional 5 bool, computed 6 bool, \
sensitive 7 bool, write_only 11 bool
NestedBlock: type_name 1 string, block 2 Block, nesting 3 int64, min_items 4 int64, \
max_items 5 int64
Block: version 1 int64, attributes 2 *Attribute, block_types 3 *NestedBlock
Schema: version 1 int64, block 2 Block
Empty:
Schemas: provider 1 Schema, resource_schemas 2 %Schema, data_source_schemas 3 %Schema, \
ephemeral_resource_schemas 8 %Schema
Config: config 1 DynamicValue
Configure: terraform_version 1 string, config 2 DynamicValue
Named: type_name 1 string, config 2 DynamicValue
Diagnostics: diagnostics 1 *Diagnostic
UpgradeRequest: type_name 1 string, version 2 int64, raw_state 3 RawState
Upgraded: upgraded_state 1 DynamicValue
ReadRequest: type_name 1 string, current_state 2 DynamicValue, private 3 bytes
Read: new_state 1 DynamicValue, private 3 bytes
PlanRequest: type_name 1 string, prior_state 2 DynamicValue, proposed_new_state 3 DynamicValue, \
config 4 DynamicValue, prior_private 5 bytes
Planned: planned_state 1 DynamicValue, planned_private 3 bytes, legacy_type_system 5 bool
ApplyRequest: type_name 1 string, prior_state 2 DynamicValue, planned_state 3 DynamicValue, \
config 4 DynamicValue, planned_private 5 bytes
Applied: new_state 1 DynamicValue, private 2 bytes, legacy_type_system 4 bool
DataRead: state 1 DynamicValue
Opened: result 3 DynamicValue
"""
METHODS = {
    "GetProviderSchema": ("Empty", "Schemas"),
    "ValidateProviderConfig": ("Config", "Empty"),
    "ValidateResourceConfig": ("Named", "Diagnostics"),
    "ValidateDataResourceConfig": ("Named", "Diagnostics"),
    "ValidateEphemeralResourceConfig": ("Named", "Diagnostics"),
    "ConfigureProvider": ("Configure", "Empty"),
    "UpgradeResourceState": ("UpgradeRequest", "Upgraded"),
    "ReadResource": ("ReadRequest", "Read"),
    "PlanResourceChange": ("PlanRequest", "Planned"),
    "ApplyResourceChange": ("ApplyRequest", "Applied"),
    "ReadDataSource": ("Named", "DataRead"),
    "OpenEphemeralResource": ("Named", "Opened"),
    "CloseEphemeralResource": ("Named", "Empty"),
    "StopProvider": ("Empty", "Empty"),
}
SERVICE = f"{_PACKAGE}.Provider"

_Field = descriptor_pb2.FieldDescriptorProto


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="tfplugin6.proto", package=_PACKAGE, syntax="proto3"
    )
    for line in _MESSAGES.strip().splitlines():
        name, _, fields = line.partition(":")
        message = file.message_type.add(name=name)
        for field in filter(None, fields.strip().split(", ")):
            _add(message, *field.split())
    return file


def _add(message: descriptor_pb2.DescriptorProto, name: str, number: str, kind: str) -> None:
    mark, kind = (kind[0], kind[1:]) if kind[0] in "*%" else ("", kind)
    if mark == "%":
        entry = message.nested_type.add(name="".join(map(str.title, name.split("_"))) + "Entry")
        entry.options.map_entry = True
        _add(entry, "key", "1", "string")
        _add(entry, "value", "2", kind)
        kind = f"{message.name}.{entry.name}"
    field = message.field.add(name=name, number=int(number))
    field.label = _Field.LABEL_REPEATED if mark else _Field.LABEL_OPTIONAL
    if scalar := getattr(_Field, f"TYPE_{kind.upper()}", None):
        field.type = scalar
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_file())


def message(name: str) -> Any:
    """The class of a message."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
