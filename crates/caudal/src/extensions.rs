//! Values of any type that travel with a connection or a call.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, RwLock};

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
/// ```
#[derive(Clone, Default)]
pub struct Extensions(Arc<RwLock<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>>);

impl Extensions {
    /// Puts a value in, in place of one of the same type.
    ///
    /// ```
    /// let extensions = caudal::Extensions::default();
    /// extensions.insert(7_u32);
    /// ```
    pub fn insert<T: Send + Sync + 'static>(&self, value: T) {
        let mut map = self
            .0
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let old = map.insert(TypeId::of::<T>(), Arc::new(value));
        // It is dropped without the lock, since it may look in here.
        drop(map);
        drop(old);
    }

    /// The value of this type, if there is one.
    ///
    /// ```
    /// assert!(caudal::Extensions::default().get::<u32>().is_none());
    /// ```
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let map = self
            .0
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        Arc::clone(map.get(&TypeId::of::<T>())?).downcast().ok()
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let map = self
            .0
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        write!(f, "Extensions({})", map.len())
    }
}
