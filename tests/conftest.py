import torch

# Two pytest workers share two cores.
torch.set_num_threads(1)
