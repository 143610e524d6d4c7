// Package datachannel is the agent's side of the data channel of AWS Session Manager, over
// which a terminal of `aws ecs execute-command` reaches a program. Parse and Message.Bytes
// are the messages; a Channel decides what to answer: the handshake, acknowledgements, what
// is sent again and what the user has typed. The source of session-manager-plugin, AWS'
// client, is the description of the protocol.
//
// It is pure: the caller has the connection and the clock. A Channel is not safe for
// concurrent use.
package datachannel
