package shell

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The two targets, and the one type of what is sent to them: JSON in a BytesValue.
const (
	gatewayName  = "gateway"
	shellName    = "shell"
	envelopeType = "google.protobuf.BytesValue"
)

// Bounds of what travels.
const (
	maxRequest = 64 << 10 // octets of a message to the daemon
	maxFrame   = 1 << 20  // octets of a message from it
	maxBatch   = 16       // envelopes of a message
)

// pack returns a value as a message to a target.
func pack(target string, v any) (*remote.RemoteMessage, int, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, 0, fmt.Errorf("encode: %w", err)
	}
	data, err := proto.Marshal(&wrapperspb.BytesValue{Value: text})
	if err != nil {
		return nil, 0, fmt.Errorf("encode: %w", err)
	}
	return &remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: &remote.MessageBatch{
		TypeNames: []string{envelopeType}, Targets: []string{target},
		Envelopes: []*remote.MessageEnvelope{{MessageData: data}},
	}}}, len(data), nil
}

// Errors of unpack: what a peer sends that is no shell, or none of this protocol.
var (
	errNoBatch = errors.New("only batches of messages are accepted")
	errTarget  = errors.New("only messages of one type to one target are accepted")
	errData    = errors.New("a message is not understood")
)

// unpack returns the values of a message to a target. It refuses all else that remoting can carry: other targets, whose
// actors would be anybody's to stop, other types, such as system messages, headers and senders.
func unpack[V any](m *remote.RemoteMessage, target string) ([]V, error) {
	b := m.GetMessageBatch()
	if b == nil || len(b.GetEnvelopes()) == 0 || len(b.GetEnvelopes()) > maxBatch {
		return nil, errNoBatch
	}
	if len(b.GetTypeNames()) != 1 || b.GetTypeNames()[0] != envelopeType || len(b.GetTargets()) != 1 ||
		b.GetTargets()[0] != target || len(b.GetSenders()) != 0 {
		return nil, errTarget
	}
	out := make([]V, 0, len(b.GetEnvelopes()))
	for _, e := range b.GetEnvelopes() {
		if e.GetTypeId() != 0 || e.GetTarget() != 0 || e.GetSender() != 0 || e.GetSerializerId() != 0 ||
			e.GetMessageHeader() != nil || e.GetTargetRequestId() != 0 || e.GetSenderRequestId() != 0 {
			return nil, errTarget
		}
		var bytes wrapperspb.BytesValue
		var v V
		if proto.Unmarshal(e.GetMessageData(), &bytes) != nil || json.Unmarshal(bytes.GetValue(), &v) != nil {
			return nil, errData
		}
		out = append(out, v)
	}
	return out, nil
}
