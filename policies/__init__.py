"""Who acts: the papers' algorithms, textbook baselines, and learners."""

from tacit.policies.base import Learner, Policy
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
from tacit.policies.classic.random import Random
from tacit.policies.classic.round_stopping import Deadline, FixedCount, Fraction, OneStepLookAhead, WaitForAll
from tacit.policies.classic.social import FollowMajority, ImitateIfBetter, Uniform, Voter
from tacit.policies.learned.round_stopping import LearnedStopping, TabularQ
from tacit.policies.learned.shared import SharedPPO
from tacit.policies.reference.arm_elimination import (
    CDPMAB,
    DDPMAB,
    HDPMAB,
    CommunicationEfficientCDPMAB,
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
    "HDPMAB",
    "PPCL",
    "BestResponse",
    "CommunicationEfficientCDPMAB",
    "Deadline",
    "FictitiousPlay",
    "FiniteBestResponse",
    "FixedCount",
    "FlatRate",
    "FollowMajority",
    "Fraction",
    "FreeRider",
    "Genie",
    "Hedge",
    "ImitateIfBetter",
    "LearnedStopping",
    "Learner",
    "Mixture",
    "OneStepLookAhead",
    "OptimalStopping",
    "OutputAgreement",
    "PeerTruthSerum",
    "Policy",
    "PostedPrice",
    "PrivateSocialLearning",
    "Random",
    "Replicator",
    "SharedPPO",
    "SingleAgent",
    "TabularQ",
    "TargetQuality",
    "Truthful",
    "Uniform",
    "Voter",
    "WaitForAll",
    "Wintall",
]
