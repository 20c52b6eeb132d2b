"""Networks of other toolkits behind the protocol: ONNX, TorchScript, torch.export, Caffe2, modules of one's own.

stepping      networks that read a word and a state          ┐ both keep their histories in `lazy`
refeeding     networks that read a whole history             ┘
onnx, torch_module, exported, caffe2: what makes such a network of a file
onnx_export, caffe2_export: the shipped kind of LSTM in these forms
"""
