//! Change notifications by PostgreSQL's `NOTIFY`: a subscriber is notified long before the watch interval ends.

use std::sync::Arc;

use mcp_host_tests::{Plugin, Postgresql, RawStdio, Revision, wait_until};

use super::{SHOP, config};

/// A row, and a trigger that notifies a channel whose name must be quoted.
const TRIGGER: &str = "
    CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_notify('Shop \"changed\"', 'a text that nobody reads'); RETURN NULL; END $$;
    CREATE TRIGGER told AFTER INSERT OR UPDATE OR DELETE ON customers FOR EACH STATEMENT EXECUTE FUNCTION tell();
";
const ROWS: &str = "db://shop/public/customers/rows";

/// The provider `database`, polled once an hour.
fn listening(shop: &Postgresql) -> mcp_host_tests::WrittenConfig {
    let plugin = Plugin::new("shop", &mcp_host_tests::component("database"), "db://shop/").set("watch-interval", "1h");
    config(plugin.sql("shop", shop.url("reader"), [("listen", "Shop \"changed\"".into())]))
}

/// Returns a transaction with `count` notifications.
fn notify(count: u32) -> String {
    format!("DO $$ BEGIN FOR n IN 1..{count} LOOP PERFORM pg_notify('Shop \"changed\"', n::text); END LOOP; END $$")
}

/// Returns the number of connections that listen.
fn listeners(shop: &Postgresql) -> usize {
    let count = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'reader' AND query LIKE 'LISTEN %'";
    shop.sql(count).trim().parse().unwrap()
}

/// A slow view, and a table of samples of whether it is being read.
const SLOW: &str = "
    CREATE VIEW slow AS SELECT 1 AS id FROM pg_sleep(0.2);
    GRANT SELECT ON slow TO reader;
    CREATE UNLOGGED TABLE samples (reads bool);
";
const SLOW_ROWS: &str = "db://shop/public/slow/rows";
const SAMPLE: &str = "
    SELECT pg_notify('Shop \"changed\"', '');
    INSERT INTO samples SELECT EXISTS (SELECT 1 FROM pg_stat_activity
        WHERE usename = 'reader' AND state <> 'idle' AND query NOT LIKE 'LISTEN %');
    SELECT pg_sleep(0.02);
";

async fn assert_updated(wire: &mut RawStdio) {
    let changed = wire.notification("notifications/resources/updated").await;
    assert_eq!(changed["params"]["uri"], ROWS);
}

#[tokio::test]
async fn a_subscriber_is_told_at_once_what_was_notified() {
    let shop = Postgresql::start(&format!("{SHOP}{TRIGGER}"));
    let mut wire = RawStdio::start(&listening(&shop), Revision::V_2025_11_25).await;
    wire.subscribe(ROWS).await;
    wait_until("the host listens", || listeners(&shop) == 1).await;
    for name in ["Barbara", "Frances"] {
        shop.sql(&format!("UPDATE customers SET name = '{name}' WHERE id = 3"));
        assert_updated(&mut wire).await;
    }
    // A burst in which all but one notification are duplicates.
    shop.sql(&notify(5000));
    shop.sql("UPDATE customers SET name = 'Ada' WHERE id = 3");
    assert_updated(&mut wire).await;
    wire.end().await;
    wait_until("the host listens no more", || listeners(&shop) == 0).await;
}

#[tokio::test]
async fn whoever_notifies_without_end_causes_reads_for_a_fifth_of_the_time() {
    let shop = Arc::new(Postgresql::start(&format!("{SHOP}{SLOW}")));
    let mut wire = RawStdio::start(&listening(&shop), Revision::V_2025_11_25).await;
    wire.subscribe(SLOW_ROWS).await;
    wait_until("the host listens", || listeners(&shop) == 1).await;
    // Each statement is a separate transaction, so each notification is sent immediately.
    let notifying = shop.clone();
    tokio::task::spawn_blocking(move || notifying.load(&SAMPLE.repeat(200))).await.unwrap();
    let samples = shop.sql("SELECT avg(reads::int) > 0.01, avg(reads::int) < 0.3, avg(reads::int) FROM samples");
    assert!(samples.starts_with("t|t|"), "{samples}");
    wire.end().await;
}

#[tokio::test]
async fn a_flood_of_notifications_closes_the_connection_and_nothing_is_missed() {
    let shop = Postgresql::start(&format!("{SHOP}{TRIGGER}"));
    let mut wire = RawStdio::start(&listening(&shop), Revision::V_2025_11_25).await;
    wire.subscribe(ROWS).await;
    wait_until("the host listens", || listeners(&shop) == 1).await;
    shop.sql(&notify(50_000));
    wire.log_line("more than 10000 notifications a second").await;
    // The host may or may not listen again by now.
    shop.sql("UPDATE customers SET name = 'Barbara' WHERE id = 3");
    assert_updated(&mut wire).await;
    wait_until("the host listens again", || listeners(&shop) == 1).await;
    wire.end().await;
}

#[tokio::test]
async fn what_changes_while_the_connection_is_lost_is_told_after_it() {
    let shop = Postgresql::start(&format!("{SHOP}{TRIGGER}"));
    let mut wire = RawStdio::start(&listening(&shop), Revision::V_2025_11_25).await;
    wire.subscribe(ROWS).await;
    wait_until("the host listens", || listeners(&shop) == 1).await;
    shop.kill();
    wire.log_line("a database of a plugin cannot be used").await;
    shop.begin();
    shop.sql("UPDATE customers SET name = 'Barbara' WHERE id = 3");
    assert_updated(&mut wire).await;
    wire.end().await;
}
