"""Networks of other toolkits behind the protocol: ONNX, Caffe2, and modules of torch."""
