"""Who acts: the papers' algorithms, textbook baselines, and learners."""

from tacit.policies.base import Learner, Policy
from tacit.policies.classic.bandits import (
    DDUCB,
    KLUCB,
    MOSS,
    UCB1,
    CentralisedOracle,
    CoopUCB2,
    DPSuccessiveElimination,
    Fed2UCB,
    GossipUCB,
    SuccessiveElimination,
    ThompsonSampling,
)
from tacit.policies.classic.elicitation import (
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
from tacit.policies.classic.gosine import GosInE
from tacit.policies.classic.random import Random
from tacit.policies.classic.round_stopping import Deadline, FixedCount, Fraction, OneStepLookAhead, WaitForAll
from tacit.policies.classic.social import (
    FollowMajority,
    ImitateIfBetter,
    IsolatedEpsilonGreedy,
    IsolatedThompson,
    IsolatedUCB,
    OracleOption,
    Uniform,
    Voter,
)
from tacit.policies.learned.federated_bandit import LearnedElimination, LearnedPulls
from tacit.policies.learned.round_stopping import LearnedStopping, TabularQ
from tacit.policies.learned.shared import SharedPPO
from tacit.policies.learned.social import SocialQ
from tacit.policies.reference.arm_elimination import (
    CDPMAB,
    DDPMAB,
    HDPMAB,
    CommunicationEfficientCDPMAB,
    EliminationSchedule,
    SingleAgent,
)
from tacit.policies.reference.elicitation import BestResponse, FiniteBestResponse, TargetQuality, Wintall
from tacit.policies.reference.optimal_stopping import OptimalStopping
from tacit.policies.reference.ppcl import CBL, PPCL
from tacit.policies.reference.private_social_learning import PrivateSocialLearning, Replicator

__all__ = [
    "CBL",
    "CDPMAB",
    "DDPMAB",
    "DDUCB",
    "HDPMAB",
    "KLUCB",
    "MOSS",
    "PPCL",
    "UCB1",
    "BestResponse",
    "CentralisedOracle",
    "CommunicationEfficientCDPMAB",
    "CoopUCB2",
    "DPSuccessiveElimination",
    "Deadline",
    "EliminationSchedule",
    "Fed2UCB",
    "FictitiousPlay",
    "FiniteBestResponse",
    "FixedCount",
    "FlatRate",
    "FollowMajority",
    "Fraction",
    "FreeRider",
    "Genie",
    "GosInE",
    "GossipUCB",
    "Hedge",
    "ImitateIfBetter",
    "IsolatedEpsilonGreedy",
    "IsolatedThompson",
    "IsolatedUCB",
    "LearnedElimination",
    "LearnedPulls",
    "LearnedStopping",
    "Learner",
    "Mixture",
    "OneStepLookAhead",
    "OptimalStopping",
    "OracleOption",
    "OutputAgreement",
    "PeerTruthSerum",
    "Policy",
    "PostedPrice",
    "PrivateSocialLearning",
    "Random",
    "Replicator",
    "SharedPPO",
    "SingleAgent",
    "SocialQ",
    "SuccessiveElimination",
    "TabularQ",
    "TargetQuality",
    "ThompsonSampling",
    "Truthful",
    "Uniform",
    "Voter",
    "WaitForAll",
    "Wintall",
]
