"""Networks of other toolkits behind the protocol: ONNX, TorchScript, torch.export, Caffe2, one's own modules."""
