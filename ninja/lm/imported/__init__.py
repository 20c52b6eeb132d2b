"""Networks of other toolkits behind the protocol: ONNX, TorchScript, torch.export, Caffe2, modules of one's own.

onnx, torch_module, exported, caffe2   a file or module ──► a network
network                                one word and a state a call, or whole histories
lazy                                   the language model over either
export                                 Ninja's LSTM as ONNX and Caffe2
"""
