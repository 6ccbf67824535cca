"""Policies: the papers' algorithms, textbook baselines, hand-designed agents, and learners."""

from taciturn.policies.base import Learner, Policy, Random
from taciturn.policies.classic.bandits import (
    KLUCB,
    MOSS,
    UCB1,
    HorizonKLUCB,
    SuccessiveElimination,
    ThompsonSampling,
)
from taciturn.policies.classic.cooperative_bandits import (
    DDUCB,
    CentralisedKLUCB,
    CentralisedOracle,
    CoopUCB2,
    Fed2UCB,
    GossipUCB,
    Synchronised,
)
from taciturn.policies.classic.elicitation import (
    FictitiousPlay,
    FlatRate,
    FreeRider,
    Genie,
    Hedge,
    Mixture,
    OutputAgreement,
    PeerTruthSerum,
    PostedPrice,
    Truthful,
)
from taciturn.policies.classic.fed_ucb import FedUCB
from taciturn.policies.classic.private_bandits import DPSuccessiveElimination
from taciturn.policies.classic.recommender import ItemUCB1, LinUCB, OracleItem
from taciturn.policies.classic.round_stopping import Deadline, FixedCount, Fraction, OneStepLookAhead, WaitForAll
from taciturn.policies.classic.social import (
    CopyOnReward,
    FollowMajority,
    GosInE,
    IsolatedEpsilonGreedy,
    IsolatedThompson,
    IsolatedUCB,
    OracleOption,
    Uniform,
    Voter,
    WinStay,
)
from taciturn.policies.classic.tree_search import HOO
from taciturn.policies.designed.arm_elimination import GrowingSchedule
from taciturn.policies.designed.elicitation import BayesianPrice, InformedPlatform, UnderstatedTarget
from taciturn.policies.designed.federated_bandit import DividedPlan, PublicPlan
from taciturn.policies.designed.level_choice import ConstantLevel, LevelPlan
from taciturn.policies.designed.listener import Listener, OneAnswerOracle
from taciturn.policies.designed.peak_bayes import CentralisedPeakBayes, PeakBayes
from taciturn.policies.designed.peak_listener import PeakListener
from taciturn.policies.designed.planning import (
    BayesPlan,
    CentralisedKnowledgeGradient,
    FiniteHorizonGittins,
    GittinsIndex,
)
from taciturn.policies.designed.recommender import BlockListener, CentralisedLogistic, LogisticBandit
from taciturn.policies.designed.round_stopping import FewRounds
from taciturn.policies.designed.sessions import BestDeadline, FiniteHorizonStopping, PlannedTraining
from taciturn.policies.designed.social import CentralisedHoldTheBest, HoldTheBest
from taciturn.policies.learned.recommender import NeuralBandit
from taciturn.policies.learned.trained import TrainedAgent
from taciturn.policies.reference.arm_elimination import (
    CDPMAB,
    DDPMAB,
    HDPMAB,
    CommunicationEfficientCDPMAB,
    EliminationSchedule,
    SingleAgent,
)
from taciturn.policies.reference.elicitation import BestResponse, FiniteBestResponse, TargetQuality, Wintall
from taciturn.policies.reference.optimal_stopping import OptimalStopping
from taciturn.policies.reference.ppcl import CBL, PPCL
from taciturn.policies.reference.private_social_learning import PrivateSocialLearning, Replicator
from taciturn.policies.reference.t_prido import DTPriDO, TPriDO

__all__ = [
    "CBL", "CDPMAB", "DDPMAB", "DDUCB", "HDPMAB", "HOO", "KLUCB", "MOSS", "PPCL", "UCB1", "BayesPlan", "BayesianPrice",
    "BestDeadline", "BestResponse", "BlockListener", "CentralisedHoldTheBest", "CentralisedKLUCB",
    "CentralisedKnowledgeGradient", "CentralisedLogistic", "CentralisedOracle", "CentralisedPeakBayes",
    "CommunicationEfficientCDPMAB", "ConstantLevel", "CoopUCB2", "CopyOnReward", "DPSuccessiveElimination", "DTPriDO",
    "Deadline", "DividedPlan", "EliminationSchedule", "Fed2UCB", "FedUCB", "FewRounds", "FictitiousPlay",
    "FiniteBestResponse", "FiniteHorizonGittins", "FiniteHorizonStopping", "FixedCount", "FlatRate", "FollowMajority",
    "Fraction", "FreeRider", "Genie", "GittinsIndex", "GosInE", "GossipUCB", "GrowingSchedule", "Hedge", "HoldTheBest",
    "HorizonKLUCB", "InformedPlatform", "IsolatedEpsilonGreedy", "IsolatedThompson", "IsolatedUCB", "ItemUCB1",
    "Learner", "LevelPlan", "LinUCB", "Listener", "LogisticBandit", "Mixture", "NeuralBandit", "OneAnswerOracle",
    "OneStepLookAhead", "OptimalStopping", "OracleItem", "OracleOption", "OutputAgreement", "PeakBayes", "PeakListener",
    "PeerTruthSerum", "PlannedTraining", "Policy", "PostedPrice", "PrivateSocialLearning", "PublicPlan", "Random",
    "Replicator", "SingleAgent", "SuccessiveElimination", "Synchronised", "TPriDO", "TargetQuality", "ThompsonSampling",
    "TrainedAgent", "Truthful", "UnderstatedTarget", "Uniform", "Voter", "WaitForAll", "WinStay", "Wintall",
]  # fmt: skip
