"""Networks from other toolkits as language models: ONNX, Caffe2, and torch modules."""
