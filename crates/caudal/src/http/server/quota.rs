//! A limit on how many there may be in all, and for each key, such as an address.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};

/// Counts what is taken, in all and for each key.
#[derive(Debug)]
pub(crate) struct Quota<K>(Mutex<(usize, HashMap<K, usize>)>);

/// Maximum number of permits, in all and for each key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuotaLimits {
    pub(crate) all: usize,
    pub(crate) each: usize,
}

/// The limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    All,
    Each,
}

/// Counts as one until it is dropped.
#[derive(Debug)]
pub(crate) struct QuotaPermit<K: Hash + Eq> {
    quota: Arc<Quota<K>>,
    most: QuotaLimits,
    /// The key, if it is known.
    of: Option<K>,
}

/// The key of an address. For IPv6 that is its /64, of which one machine can take any
/// address; an IPv4 address that is mapped into IPv6 counts as IPv4.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address => address,
    }
}

impl<K> Default for Quota<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K> Quota<K> {
    fn lock(&self) -> MutexGuard<'_, (usize, HashMap<K, usize>)> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<K: Hash + Eq + Clone> QuotaPermit<K> {
    /// Takes one.
    ///
    /// # Errors
    /// The limit, if there is none left.
    pub(crate) fn take(
        quota: &Arc<Quota<K>>,
        of: Option<K>,
        most: QuotaLimits,
    ) -> Result<Self, Full> {
        let mut taken = quota.lock();
        let (all, each) = &mut *taken;
        let own = of.as_ref().and_then(|of| each.get(of)).copied();
        if of.is_some() && own.unwrap_or(0) >= most.each {
            return Err(Full::Each);
        }
        if *all >= most.all {
            return Err(Full::All);
        }
        *all += 1;
        if let Some(of) = &of {
            *each.entry(of.clone()).or_default() += 1;
        }
        let quota = Arc::clone(quota);
        Ok(Self { quota, most, of })
    }

    /// Takes another one for the same.
    pub(super) fn another(&self) -> Option<Self> {
        Self::take(&self.quota, self.of.clone(), self.most).ok()
    }
}

impl<K: Hash + Eq> Drop for QuotaPermit<K> {
    fn drop(&mut self) {
        let mut taken = self.quota.lock();
        let (all, each) = &mut *taken;
        *all -= 1;
        let Some(of) = &self.of else { return };
        if let Some(count) = each.get_mut(of) {
            *count -= 1;
            if *count == 0 {
                each.remove(of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_counts_by_its_network() {
        for (address, counts_as) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),
            ("2001:db8:1:3::1", "2001:db8:1:3::"),
            ("::1", "::"),
        ] {
            let counted = network(address.parse().unwrap());
            assert_eq!(counted, counts_as.parse::<IpAddr>().unwrap(), "{address}");
        }
    }

    #[test]
    fn nobody_is_kept_in_mind_who_has_gone() {
        let quota = Arc::default();
        let most = QuotaLimits { all: 3, each: 2 };
        let take = |of| QuotaPermit::take(&quota, of, most);
        let one = take(Some("ada")).unwrap();
        let other = one.another().unwrap();
        assert!(one.another().is_none());
        assert_eq!(take(Some("ada")).unwrap_err(), Full::Each);
        let third = take(None).unwrap();
        assert_eq!(take(Some("bob")).unwrap_err(), Full::All);
        assert_eq!(quota.lock().1.len(), 1);
        drop((one, third));
        let _bob = take(Some("bob")).unwrap();
        drop(other);
        assert_eq!(*quota.lock(), (1, HashMap::from([("bob", 1)])));
        let unknown = [take(None), take(None)];
        assert!(unknown.iter().all(Result::is_ok) && take(None).is_err());
    }
}
