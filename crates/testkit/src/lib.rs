//! The enemy: fault proxy, scripted registry, gates, frozen clock.
