#!/usr/bin/env python3
"""validate.py SCHEMA < TEXTS: whether texts, each followed by a zero byte, are JSON that the schema allows.

Validated by python3-jsonschema; formats are looked at here, since that package leaves most of them to others.  Says
which text is wrong, or how many there were and how many differ."""
import datetime, json, re, sys, uuid
import jsonschema

checker = jsonschema.FormatChecker(formats=[])
TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"


@checker.checks("date")
def is_date(text):
    return not isinstance(text, str) or bool(re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text)
                                             and datetime.date.fromisoformat(text))


@checker.checks("time")
def is_time(text):
    return not isinstance(text, str) or bool(re.fullmatch(TIME, text))


@checker.checks("date-time", ValueError)
def is_date_time(text):
    return not isinstance(text, str) or is_date(text[:10]) and text[10:11] == "T" and is_time(text[11:])


@checker.checks("uuid", ValueError)
def is_uuid(text):
    return not isinstance(text, str) or str(uuid.UUID(text)) == text.lower()


def no_constant(name):
    raise ValueError(f"{name} is not JSON")


with open(sys.argv[1], encoding="utf-8") as file:
    schema = json.load(file)
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema, format_checker=checker)
texts = sys.stdin.buffer.read().split(b"\0")[:-1]
for number, text in enumerate(texts):
    try:
        value = json.loads(text.decode("utf-8", "strict"), parse_constant=no_constant)
        value = json.loads(text, object_pairs_hook=dict)
        validator.validate(value)
    except (ValueError, jsonschema.ValidationError) as error:
        sys.exit(f"text {number}: {text[:200]!r}: {str(error).splitlines()[0]}")
print(len(texts), len(set(texts)))
