"""What alembic runs to change the tables of a store: `meritfair.programme.storage.upgrading` hands it a connection."""

from __future__ import annotations

from alembic import context

from meritfair.programme.storage.schema import METADATA, VERSIONS

# Both databases can undo changes of tables. The transaction is the caller's, so that all scripts are applied or none.
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSIONS,
    transactional_ddl=True,
    render_as_batch=True,
)
context.run_migrations()
