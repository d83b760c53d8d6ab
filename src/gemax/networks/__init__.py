"""Neural networks as pure functions. This is the only package that imports flax."""

from gemax.networks.agent import AgentInputs, AgentNetwork, InputTables, agent_network, lstm_inputs
from gemax.networks.base import Network, Parameters, mlp
from gemax.networks.lstm import LSTMState
from gemax.networks.torso import torso, torso_and_heads
