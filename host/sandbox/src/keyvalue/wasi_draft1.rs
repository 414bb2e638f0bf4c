//! `wasi:keyvalue` in the previous draft, for components built for hosts that support only that.
//!
//! It has no compare-and-swap and no negative numbers, and its cursors are numbers: the count of keys to skip, or the
//! revision of a shared bucket. A paginated listing may therefore miss or repeat a key when other keys are written
//! meanwhile, as the standard allows.

use wasmtime::component::{Linker, Resource};

use super::PageStart;
use super::bindings::draft1::{atomics, batch, store};
use super::error::StoreError;
use super::{Bucket, HasKeyvalue, KeyvalueView};

/// The range of numbers in this draft.
const INTEGER_RANGE: std::ops::RangeInclusive<i128> = 0..=u64::MAX as i128;

pub(super) fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    keyvalue: fn(&mut T) -> KeyvalueView<'_>,
) -> wasmtime::Result<()> {
    store::add_to_linker::<T, HasKeyvalue>(linker, keyvalue)?;
    atomics::add_to_linker::<T, HasKeyvalue>(linker, keyvalue)?;
    batch::add_to_linker::<T, HasKeyvalue>(linker, keyvalue)
}

impl From<StoreError> for store::Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotGranted { .. } => Self::NoSuchStore,
            other => Self::Other(other.to_string()),
        }
    }
}

impl store::Host for KeyvalueView<'_> {
    async fn open(&mut self, identifier: String) -> Result<Resource<Bucket>, StoreError> {
        KeyvalueView::open(self, &identifier)
    }

    fn convert_error(&mut self, error: StoreError) -> wasmtime::Result<store::Error> {
        Ok(error.into())
    }
}

impl store::HostBucket for KeyvalueView<'_> {
    async fn get(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Option<Vec<u8>>, StoreError> {
        self.operations().get(self.bucket(&bucket)?, key).await
    }

    async fn set(&mut self, bucket: Resource<Bucket>, key: String, value: Vec<u8>) -> Result<(), StoreError> {
        self.operations().set(self.bucket(&bucket)?, key, value).await
    }

    async fn delete(&mut self, bucket: Resource<Bucket>, key: String) -> Result<(), StoreError> {
        self.operations().delete(self.bucket(&bucket)?, key).await
    }

    async fn exists(&mut self, bucket: Resource<Bucket>, key: String) -> Result<bool, StoreError> {
        self.operations().exists(self.bucket(&bucket)?, key).await
    }

    async fn list_keys(
        &mut self,
        bucket: Resource<Bucket>,
        cursor: Option<u64>,
    ) -> Result<store::KeyResponse, StoreError> {
        let skipped = cursor.unwrap_or(0);
        let page = self.operations().keys(self.bucket(&bucket)?, PageStart::Offset(skipped)).await?;
        Ok(store::KeyResponse { cursor: page.offset(skipped), keys: page.keys })
    }

    async fn drop(&mut self, bucket: Resource<Bucket>) -> wasmtime::Result<()> {
        self.table.delete(bucket)?;
        Ok(())
    }
}

impl atomics::Host for KeyvalueView<'_> {
    async fn increment(&mut self, bucket: Resource<Bucket>, key: String, delta: u64) -> Result<u64, StoreError> {
        let sum = self.operations().increment(self.bucket(&bucket)?, key, delta.into(), INTEGER_RANGE).await?;
        u64::try_from(sum).map_err(|_| StoreError::Overflow)
    }
}

impl batch::Host for KeyvalueView<'_> {
    async fn get_many(
        &mut self,
        bucket: Resource<Bucket>,
        keys: Vec<String>,
    ) -> Result<Vec<Option<(String, Vec<u8>)>>, StoreError> {
        self.operations().get_many(self.bucket(&bucket)?, keys).await
    }

    async fn set_many(
        &mut self,
        bucket: Resource<Bucket>,
        key_values: Vec<(String, Vec<u8>)>,
    ) -> Result<(), StoreError> {
        self.operations().set_many(self.bucket(&bucket)?, key_values).await
    }

    async fn delete_many(&mut self, bucket: Resource<Bucket>, keys: Vec<String>) -> Result<(), StoreError> {
        self.operations().delete_many(self.bucket(&bucket)?, keys).await
    }
}
