from kdissect.messages.redaction import redacted


def test_sasl_payloads_and_hmacs_are_taken_out() -> None:
    body = {"auth_bytes": b"\0user\0secret", "tokens": [{"hmac": b"1234", "token_id": "t"}]}
    assert redacted(body) == {
        "auth_bytes": "<redacted, 12 bytes>",
        "tokens": [{"hmac": "<redacted, 4 bytes>", "token_id": "t"}],
    }


def test_scram_salts_and_passwords_are_taken_out() -> None:
    body = {"upsertions": [{"name": "user", "salt": b"12", "salted_password": b"345"}]}
    assert redacted(body) == {
        "upsertions": [
            {
                "name": "user",
                "salt": "<redacted, 2 bytes>",
                "salted_password": "<redacted, 3 bytes>",
            }
        ]
    }


def test_values_of_configs_with_passwords_are_taken_out_and_others_stay() -> None:
    configs = [
        {"name": "ssl.keystore.password", "value": "hunter2"},
        {"name": "listener.name.x.scram-sha-256.sasl.jaas.config", "value": "..."},
        {"name": "retention.ms", "value": "1000"},
        {"name": "odd", "is_sensitive": True, "value": "x"},
        {"name": "sasl.jaas.config", "value": None},
    ]
    values = [config["value"] for config in redacted(configs)]  # type: ignore[attr-defined]
    assert values == [
        "<redacted, 7 bytes>",
        "<redacted, 3 bytes>",
        "1000",
        "<redacted, 1 bytes>",
        None,
    ]
