//! Values of any type that travel with a connection or a call.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

type Value = Arc<dyn Any + Send + Sync>;

/// One value of each type, shared by all clones.
///
/// ```
/// use caudal::Extensions;
///
/// #[derive(Debug, PartialEq)]
/// struct User(&'static str);
///
/// let extensions = Extensions::default();
/// extensions.insert(User("ada"));
/// assert_eq!(*extensions.get::<User>().unwrap(), User("ada"));
/// assert_eq!(*extensions.remove::<User>().unwrap(), User("ada"));
/// assert!(extensions.get::<User>().is_none());
/// ```
#[derive(Clone, Default)]
pub struct Extensions(Arc<RwLock<HashMap<TypeId, Value>>>);

impl Extensions {
    /// Puts a value in, in place of one of the same type.
    ///
    /// ```
    /// let extensions = caudal::Extensions::default();
    /// extensions.insert(7_u32);
    /// ```
    pub fn insert<T: Send + Sync + 'static>(&self, value: T) {
        let old = self.write().insert(TypeId::of::<T>(), Arc::new(value));
        // It is dropped without the lock, since it may look in here.
        drop(old);
    }

    /// Returns the value of this type, if there is one.
    ///
    /// ```
    /// assert!(caudal::Extensions::default().get::<u32>().is_none());
    /// ```
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let value = self.read().get(&TypeId::of::<T>()).cloned();
        value?.downcast().ok()
    }

    /// Returns the value of this type. If there is none, `make` makes it and it is put in.
    ///
    /// `make` may run in several threads at the same time; all of them get the value that
    /// was put in first.
    ///
    /// ```
    /// use caudal::Extensions;
    /// use std::sync::Mutex;
    ///
    /// #[derive(Default)]
    /// struct Subscriptions(Mutex<Vec<String>>);
    ///
    /// let extensions = Extensions::default();
    /// let subscriptions = extensions.get_or_insert_with(Subscriptions::default);
    /// subscriptions.0.lock().unwrap().push("ticks".to_owned());
    /// assert_eq!(extensions.get::<Subscriptions>().unwrap().0.lock().unwrap().len(), 1);
    /// ```
    pub fn get_or_insert_with<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        if let Some(value) = self.get() {
            return value;
        }
        // Made without the lock, since it may look in here.
        let new: Arc<T> = Arc::new(make());
        let mut map = self.write();
        let value = map.entry(TypeId::of::<T>());
        let value = Arc::clone(value.or_insert_with(|| Arc::clone(&new) as Value));
        drop(map);
        value.downcast().unwrap_or(new)
    }

    /// Removes the value of this type, and returns it.
    ///
    /// ```
    /// let extensions = caudal::Extensions::default();
    /// assert!(extensions.remove::<u32>().is_none());
    /// ```
    pub fn remove<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let value = self.write().remove(&TypeId::of::<T>());
        value?.downcast().ok()
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<TypeId, Value>> {
        self.0
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<TypeId, Value>> {
        self.0
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extensions({})", self.read().len())
    }
}
