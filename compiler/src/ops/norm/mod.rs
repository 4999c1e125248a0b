//! Normalization operators.

pub(crate) mod batch;
pub(crate) mod channel;
mod gradient;
pub(crate) mod layer;
mod layer_grad;
pub(crate) mod local;
pub(crate) mod rows;
mod stash_type;

use super::{Entry, entry, function, internal, nodes};

pub const OPS: &[Entry] = &[
    entry("BatchNormalization", 1, batch::read_with_test_flag),
    entry("BatchNormalization", 7, batch::read_by_outputs),
    entry("BatchNormalization", 14, batch::read),
    function("GroupNormalization", 18, batch::group_of_scaled_groups),
    entry("GroupNormalization", 21, batch::read_group),
    entry("InstanceNormalization", 1, batch::read_instance),
    entry("LRN", 1, local::read_lrn),
    entry("LayerNormalization", 17, layer::read),
    entry("LpNormalization", 1, local::read_lp),
    entry("MeanVarianceNormalization", 9, local::read_mean_variance),
    nodes("RMSNormalization", 23, layer::read_rms),
    internal("ChannelFactors", channel::read_factors),
    internal("ChannelMoments", channel::read_moments),
    internal("ChannelGrad", channel::read_grad),
    internal("ChannelSums", channel::read_sums),
    internal("LayerNormalizationGrad", |node| layer_grad::read(node, true)),
    internal("RMSNormalizationGrad", |node| layer_grad::read(node, false)),
    internal("RunningMean", channel::read_running_mean),
];
