"""What tests of the server share: stores on SQLite and PostgreSQL, and the same draws each time."""

from __future__ import annotations

from programme.conftest import postgresql as postgresql
from programme.conftest import store_url as store_url
from same_draws import same_draws as same_draws
