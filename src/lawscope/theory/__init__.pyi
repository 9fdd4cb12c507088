from . import elastic_sde as elastic_sde
from . import equilibrium as equilibrium
from . import landscapes as landscapes
from . import latent as latent
from . import layer_peeled as layer_peeled
from . import representation as representation
