"""Who a realm takes for a user, and that it always does the same work to find out."""

from __future__ import annotations

import hmac
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid_member.config.model.member import User
from grid_member.config.model.security import RealmConfig
from grid_member.security.realms import MAX_CREDENTIAL_CHARACTERS, Realm, Verification

USERS = (User("ada", "s3cret"), User("bob", "p:w"), User("müller", "grün"), User("a", "das3cret"))
LONGEST = "x" * MAX_CREDENTIAL_CHARACTERS
texts = st.text(max_size=30)


def realm(*users: User, identity: User | None = None) -> Realm:
    return Realm(RealmConfig("ops", users, identity))


@pytest.mark.parametrize(
    ("user", "password", "accepted", "known"),
    [
        ("ada", "s3cret", True, "ada"),
        ("bob", "p:w", True, "bob"),
        ("müller", "grün", True, "müller"),
        (unicodedata.normalize("NFD", "müller"), unicodedata.normalize("NFD", "grün"), True, None),
        ("a", "das3cret", True, "a"),
        ("ada", "S3cret", False, "ada"),
        ("ada", "s3cret ", False, "ada"),
        ("ada", "s3cret\n", False, "ada"),
        ("ada", "", False, "ada"),
        ("ada", "p:w", False, "ada"),
        ("Ada", "s3cret", False, None),
        ("s3cret", "ada", False, None),
        ("adas3cret", "", False, None),
        ("bob:p", "w", False, None),
        ("", "", False, None),
        ("nobody", "s3cret", False, None),
        ("ada", "s3cret\x00", False, "ada"),
        ("ada\ud800", "s3cret", False, None),
        (LONGEST + "x", "s3cret", False, None),
        ("ada", LONGEST + "x", False, None),
    ],
)
def test_only_a_user_with_the_password_is_accepted(
    user: str, password: str, accepted: bool, known: str | None
) -> None:
    shown = known or ("müller" if accepted else None)
    assert realm(*USERS).verify(user, password) == Verification(accepted, shown)


def test_the_longest_password_that_can_be_configured_is_accepted() -> None:
    assert realm(User(LONGEST, LONGEST)).verify(LONGEST, LONGEST).accepted
    assert not realm(User("", "")).verify(LONGEST + "x", "").accepted


@given(texts, texts, texts, texts)
def test_a_pair_is_accepted_exactly_when_it_is_the_configured_one(
    user: str, password: str, other_user: str, other_password: str
) -> None:
    one = realm(User(user, password))
    assert one.verify(user, password) == Verification(True, user)
    same = [
        unicodedata.normalize("NFC", x) == unicodedata.normalize("NFC", y)
        for x, y in ((user, other_user), (password, other_password))
    ]
    assert one.verify(other_user, other_password).accepted is all(same)


def test_without_users_the_identity_may_call() -> None:
    identity = User("member", "joins")
    assert realm(identity=identity).verify("member", "joins").accepted
    assert not realm(*USERS, identity=identity).verify("member", "joins").accepted


def test_a_realm_of_nobody_accepts_nobody() -> None:
    assert not realm().verify("", "").accepted


@pytest.mark.parametrize("given", [("ada", "s3cret"), ("nobody", "x"), ("a", "wrong"), ("", "")])
def test_every_user_is_compared_whoever_calls(
    given: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def counted(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return real(one, other)

    tested = realm(*USERS)
    monkeypatch.setattr(hmac, "compare_digest", counted)
    tested.verify(*given)
    assert compared == [(32, 32)] * (2 * len(USERS))


def test_nothing_that_is_shown_holds_a_password() -> None:
    config = RealmConfig("ops", USERS, User("member", "joins"))
    tested = Realm(config)
    shown = " ".join(map(repr, (config, tested, *vars(tested).values())))
    assert not any(secret in shown for secret in ("s3cret", "p:w", "grün", "joins"))
