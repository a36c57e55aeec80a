package etcd

import (
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"edgespan/config/revision"
)

// A cluster over its quota is one without room until a write succeeds. It may have done the write
// that it refuses.
func TestAClusterWithoutRoom(t *testing.T) {
	s := &Store{}
	if err := s.meaning(t.Context(), rpctypes.ErrNoSpace); !errors.Is(err, revision.ErrFull) || errors.Is(err, revision.ErrUnwritten) || !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("got %v", err)
	}
	if err := s.Sound(); !errors.Is(err, revision.ErrFull) {
		t.Errorf("sound: %v", err)
	}
	s.wrote()
	if err := s.Sound(); err != nil {
		t.Errorf("after a write: %v", err)
	}
}
