//! The clock of appends, and beside it the counters of the device.

use std::time::Instant;

use crate::calibration::millis;
use crate::device::{Device, DeviceWrites};

/// What appends took.
#[derive(Debug)]
pub(crate) struct Appended {
    pub(crate) ms: f64,
    pub(crate) device: Option<DeviceWrites>,
}

/// Runs while messages are appended.
#[derive(Debug)]
pub(crate) struct Clock {
    device: Option<Device>,
    before: Option<DeviceWrites>,
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let device = Device::named();
        let before = device.as_ref().and_then(Device::written);
        Self { device, before, start: Instant::now() }
    }

    pub(crate) fn stop(self) -> Appended {
        let ms = millis(self.start.elapsed());
        let after = self.device.as_ref().and_then(Device::written);
        let device = after.zip(self.before).map(|(after, before)| after.since(before));
        Appended { ms, device }
    }
}
