"""Differential privacy, independent of environments; of taciturn it imports only `taciturn.validation`.

- `mechanisms`: everything about one message (from `base`, `randomized_response`, `calibrated_noise`, `stateful`,
  `samplers`)
- `losses`: the cost of one message
- `composition`: the cost of many messages
- `sampling`, `shuffling`: the cost of a message with a hidden sender
- `accountant` (with `accounts`), `budget`, `spending`: the messages and budgets of each agent, and the epsilon of a run
- `certifying` (with `audit_result`): lower bounds on epsilon from transcripts
- `channels`: the attributes of a channel that the accountant reads
"""
