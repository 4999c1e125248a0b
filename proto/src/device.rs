//! The distribution of a model over devices.

/// A named set of devices.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct DeviceConfigurationProto {
    /// The name that nodes refer to.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// The number of devices.
    #[prost(int32, optional, tag = "2")]
    pub num_devices: Option<i32>,
    /// The names of the devices; empty, or one for each device.
    #[prost(string, repeated, tag = "3")]
    pub device: Vec<String>,
}

/// The distribution of a node over the devices of one configuration.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct NodeDeviceConfigurationProto {
    /// The name of a `DeviceConfigurationProto`.
    #[prost(string, optional, tag = "1")]
    pub configuration_id: Option<String>,
    /// The sharding of inputs and outputs.
    #[prost(message, repeated, tag = "2")]
    pub sharding_spec: Vec<ShardingSpecProto>,
    /// The stage of the pipeline that the node belongs to.
    #[prost(int32, optional, tag = "3")]
    pub pipeline_stage: Option<i32>,
}

/// The sharding of a tensor over devices.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ShardingSpecProto {
    /// The name of an input or output of the node.
    #[prost(string, optional, tag = "1")]
    pub tensor_name: Option<String>,
    /// The devices, or device groups, that hold the shards.
    #[prost(int64, repeated, packed = "false", tag = "2")]
    pub device: Vec<i64>,
    /// The devices of each entry of `device` that is a group.
    #[prost(message, repeated, tag = "3")]
    pub index_to_device_group_map: Vec<IntIntListEntryProto>,
    /// The sharding of axes.
    #[prost(message, repeated, tag = "4")]
    pub sharded_dim: Vec<ShardedDimProto>,
}

/// A key and its values, all integers.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct IntIntListEntryProto {
    /// The key.
    #[prost(int64, optional, tag = "1")]
    pub key: Option<i64>,
    /// The values.
    #[prost(int64, repeated, packed = "false", tag = "2")]
    pub value: Vec<i64>,
}

/// The sharding of an axis.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ShardedDimProto {
    /// The axis; a negative one counts from the last.
    #[prost(int64, optional, tag = "1")]
    pub axis: Option<i64>,
    /// The shards; several if the axis is several fused axes.
    #[prost(message, repeated, tag = "2")]
    pub simple_sharding: Vec<SimpleShardedDimProto>,
}

/// A size divided into equal shards.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct SimpleShardedDimProto {
    /// The size that is divided.
    #[prost(oneof = "simple_sharded_dim_proto::Dim", tags = "1, 2")]
    pub dim: Option<simple_sharded_dim_proto::Dim>,
    /// The number of shards.
    #[prost(int64, optional, tag = "3")]
    pub num_shards: Option<i64>,
}

/// The types nested in [`SimpleShardedDimProto`].
pub mod simple_sharded_dim_proto {
    /// The size that is divided.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
    pub enum Dim {
        /// A number.
        #[prost(int64, tag = "1")]
        DimValue(i64),
        /// A symbol.
        #[prost(string, tag = "2")]
        DimParam(String),
    }
}
