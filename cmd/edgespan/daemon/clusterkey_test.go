package daemon

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// A disk that was full at the start is not for ever: the key is made once there is room, and nothing tries after it.
func TestTheClusterKeyIsMadeOnceThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		full, tries := true, 0
		var k clusterKey
		k.obtain(ctx, func() (string, error) {
			if tries++; full {
				return "", errors.New("no space left on device")
			}
			return "public", nil
		}, zap.NewNop())
		time.Sleep(time.Hour)
		synctest.Wait()
		if k.get() != "" || tries < 50 || tries > 80 {
			t.Errorf("within an hour of a full disk: key %q, %d tries, want none and about one a minute", k.get(), tries)
		}
		full = false
		time.Sleep(time.Minute)
		synctest.Wait()
		if k.get() != "public" {
			t.Error("there is no key a minute after there is room")
		}
		before := tries
		time.Sleep(time.Hour)
		if synctest.Wait(); tries != before {
			t.Errorf("%d tries after the key was made", tries-before)
		}
		cancel()
	})
}

func TestTheTriesForAClusterKeyEndWithTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		tries := 0
		var k clusterKey
		k.obtain(ctx, func() (string, error) { tries++; return "", errors.New("no space left on device") }, zap.NewNop())
		cancel()
		synctest.Wait()
		before := tries
		time.Sleep(time.Hour)
		if synctest.Wait(); tries != before {
			t.Errorf("%d tries after the end", tries-before)
		}
	})
}
