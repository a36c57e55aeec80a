package wireguard

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/store"
)

// key is a private, public or preshared key. The zero preshared key stands for none.
type key [32]byte

// errNotKey never has the text: it may be a secret.
var errNotKey = errors.New("must be 32 bytes in base64")

func parseKey(s string) (key, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) != len(key{}) {
		return key{}, errNotKey
	}
	return key(b), nil
}

func parseHexKey(s string) (key, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(key{}) {
		return key{}, errors.New("key: must be 64 hexadecimal digits")
	}
	return key(b), nil
}

func (k key) base64() string { return base64.StdEncoding.EncodeToString(k[:]) }
func (k key) hex() string    { return hex.EncodeToString(k[:]) }

// clamped returns the private key in the form in which the kernel and wireguard-go keep it (RFC 7748 §5).
func (k key) clamped() key {
	k[0] &= 248
	k[31] = k[31]&127 | 64
	return k
}

// public returns the public key of a private one.
func (k key) public() (key, error) {
	private, err := ecdh.X25519().NewPrivateKey(k[:])
	if err != nil {
		return key{}, fmt.Errorf("private key: %w", err)
	}
	return key(private.PublicKey().Bytes()), nil
}

// keys are the private keys that the node made, one file each below a folder.
type keys string

func (d keys) path(identity string) (string, error) {
	if identity == "" || identity != filepath.Base(identity) || strings.HasPrefix(identity, ".") {
		return "", fmt.Errorf("identity %q: must be the name of a file", identity)
	}
	return filepath.Join(string(d), identity), nil
}

// makingKey keeps two tunnels from making different keys of one identity.
var makingKey sync.Mutex

// get returns the key of an identity, and makes one if there is none. An unreadable one is an error: a new key in its
// place would cut off the peers.
func (d keys) get(identity string) (key, error) {
	path, err := d.path(identity)
	if err != nil {
		return key{}, err
	}
	makingKey.Lock()
	defer makingKey.Unlock()
	text, err := os.ReadFile(path)
	switch {
	case err == nil:
		k, err := parseKey(strings.TrimSpace(string(text)))
		if err != nil {
			return key{}, fmt.Errorf("kept key %s: %w", path, err)
		}
		return k, nil
	case !errors.Is(err, fs.ErrNotExist):
		return key{}, fmt.Errorf("read kept key: %w", err)
	}
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return key{}, fmt.Errorf("make key: %w", err)
	}
	k := key(private.Bytes()).clamped()
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return key{}, fmt.Errorf("keep key: %w", err)
	}
	// The kept key was deleted to be rid of it, and of a copy that may exist: the announced one and the former go, too.
	if err := errors.Join(d.forget(identity+nextSuffix), d.forget(identity+formerSuffix),
		d.forget(identity+triedSuffix), d.forget(identity+formerSuffix+swapSuffix),
		d.forget(identity+triedSuffix+swapSuffix)); err != nil {
		return key{}, err
	}
	if err := store.WriteFile(path, []byte(k.base64()+"\n"), 0o600); err != nil {
		return key{}, fmt.Errorf("keep key: %w", err)
	}
	return k, nil
}

// nextSuffix is what the name of a key that shall replace another has in addition to the other's, and formerSuffix that
// of one that was replaced. triedSuffix is that of the one by which it was, while the former one is tried again.
const (
	nextSuffix   = ".next"
	formerSuffix = ".former"
	triedSuffix  = ".tried"
	swapSuffix   = ".new" // of a file that is not in its place yet
)

// made returns when the key of an identity was written. A missing one is fs.ErrNotExist.
func (d keys) made(identity string) (time.Time, error) {
	path, err := d.path(identity)
	if err != nil {
		return time.Time{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}, fmt.Errorf("look at kept key: %w", err)
	}
	return info.ModTime(), nil
}

// date makes the key of an identity, and the next one, if there is one, as of now.
func (d keys) date(identity string) error {
	path, err := d.path(identity)
	if err != nil {
		return err
	}
	now := time.Now()
	if err := os.Chtimes(path, now, now); err != nil {
		return fmt.Errorf("date key: %w", err)
	}
	if err := os.Chtimes(path+nextSuffix, now, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("date key: %w", err)
	}
	return nil
}

// replace puts the next key of an identity in its place, at once or not at all, and keeps the former one. An end in
// between leaves copies of one of them, which are no other keys.
func (d keys) replace(identity string) error {
	path, err := d.path(identity)
	if err != nil {
		return err
	}
	makingKey.Lock()
	defer makingKey.Unlock()
	if err := copyKey(path, path+formerSuffix); err != nil {
		return fmt.Errorf("keep former key: %w", err)
	}
	if err := copyKey(path+nextSuffix, path); err != nil {
		return fmt.Errorf("replace key: %w", err)
	}
	return d.forget(identity + nextSuffix)
}

// swap puts another key of an identity in its place, at once or not at all, and keeps the one that was there under a
// suffix. An end or a fault in between leaves that one twice, which is no other key. It needs no room: on a full disk
// the node would stay cut off.
func (d keys) swap(identity, from, to string) error {
	path, err := d.path(identity)
	if err != nil {
		return err
	}
	makingKey.Lock()
	defer makingKey.Unlock()
	text, err := os.ReadFile(path + from)
	if err == nil {
		_, err = parseKey(strings.TrimSpace(string(text)))
	}
	if now := time.Now(); err == nil { // since when it is in use
		err = errors.Join(d.forget(identity+to+swapSuffix), os.Chtimes(path+from, now, now))
	}
	if err == nil {
		if os.Link(path, path+to+swapSuffix) == nil {
			err = os.Rename(path+to+swapSuffix, path+to)
		} else {
			err = copyKey(path, path+to) // a file system without links
		}
	}
	if err == nil { // a rename to another name of the same file does nothing
		err = d.forget(identity + to + swapSuffix)
	}
	if err == nil {
		err = os.Rename(path+from, path)
	}
	if err != nil {
		return fmt.Errorf("try the key %s: %w", path+from, err)
	}
	return nil
}

// copyKey copies a key's file, if it has one.
func copyKey(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if _, err := parseKey(strings.TrimSpace(string(text))); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return store.WriteFile(to, text, 0o600)
}

// forget deletes the key of an identity. A missing one is no error.
func (d keys) forget(identity string) error {
	path, err := d.path(identity)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget key: %w", err)
	}
	return nil
}

// Kept returns what is known of the key that the node keeps under an identity; it makes one if there is none.
func (t *Tunnels) Kept(identity string) (netstate.KeptKey, error) {
	var out netstate.KeptKey
	var err error
	if out.Public, err = t.PublicKey(identity); err != nil {
		return out, err
	}
	if out.Made, err = t.keys.made(identity); err != nil {
		return out, err
	}
	if out.Former, err = t.other(identity, formerSuffix, out.Public); err != nil {
		return out, err
	}
	if out.Tried, err = t.other(identity, triedSuffix, out.Public); err != nil {
		return out, err
	}
	next := identity + nextSuffix
	if out.Announced, err = t.keys.made(next); errors.Is(err, fs.ErrNotExist) {
		return out, nil
	} else if err != nil {
		return out, err
	}
	out.Next, err = t.PublicKey(next)
	broken := errors.Is(err, errNotKey)
	if broken { // cut off by a power cut, or edited: another one is announced
		err = nil
	}
	// Otherwise replacing has been cut short, or the next key is of an older life than the kept one.
	if old := out.Announced.Before(out.Made); err == nil && (broken || old || out.Next == out.Public) {
		out.Next, out.Announced = "", time.Time{}
		err = t.keys.forget(next)
	}
	return out, err
}

// other returns the public half of the former key of an identity, or of the one that is tried, "" for none. One that is
// the kept key is left of a change that was cut short.
func (t *Tunnels) other(identity, suffix, kept string) (string, error) {
	former := identity + suffix
	if _, err := t.keys.made(former); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	public, err := t.PublicKey(former)
	if errors.Is(err, errNotKey) || err == nil && public == kept {
		return "", t.keys.forget(former)
	}
	return public, err
}

// Announce makes the key that shall replace the one that the node keeps under an identity, unless there is one.
func (t *Tunnels) Announce(identity string) error {
	_, err := t.keys.get(identity + nextSuffix)
	return err
}

// Date makes the kept key of an identity and the announced one as of now: that of a clock that was ahead.
func (t *Tunnels) Date(identity string) error { return t.keys.date(identity) }

// Replace puts the announced key of an identity into the place of the kept one, which becomes the former one. Tunnels
// have it with the next Put.
func (t *Tunnels) Replace(identity string) error { return t.keys.replace(identity) }

// TryFormer puts the former key of an identity back, keeps the other one, and forgets the announced key.
func (t *Tunnels) TryFormer(identity string) error {
	if err := t.keys.swap(identity, formerSuffix, triedSuffix); err != nil {
		return err
	}
	return t.keys.forget(identity + nextSuffix)
}

// TryAgain undoes TryFormer.
func (t *Tunnels) TryAgain(identity string) error {
	return t.keys.swap(identity, triedSuffix, formerSuffix)
}

// Settle forgets the key of an identity that is not in use.
func (t *Tunnels) Settle(identity string) error {
	return errors.Join(t.keys.forget(identity+formerSuffix), t.keys.forget(identity+triedSuffix))
}
