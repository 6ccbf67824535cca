"""Differential privacy, apart from any environment; of taciturn it imports only `taciturn.validation`.

- `mechanisms`: everything about one message (from `base`, `randomized_response`, `calibrated_noise`, `stateful`,
  `samplers`)
- `losses`: what one message costs
- `composition`: what many messages cost together
- `sampling`, `shuffling`: what a message costs whose sender is hidden among others
- `accountant` (with `accounts`), `budget`, `spending`: what each agent has sent, what it may send, and what a run has
spent
- `certifying` (with `audit_result`): lower bounds on epsilon from transcripts
- `channels`: what accounting reads of a channel
"""
