package history

import (
	"fmt"
	"strconv"
	"strings"

	"edgespan/config"
	"edgespan/config/kv"
)

// The keys and the folders of keys, as in the package's table.
const (
	keyHead      = "head"
	keyFleet     = "fleet"
	keyRestoring = "restoring"

	folderRevisions       = "revisions/"
	folderObjects         = "objects/"
	folderSets            = "sets/"
	folderNodes           = "nodes/"
	folderNames           = "names/"
	folderTokens          = "tokens/"
	folderGenerations     = "generations/"
	folderPushes          = "pushes/"
	folderOwners          = "owners/"
	folderOutboxes        = "mailboxes/"
	folderPreviews        = "previews/"
	folderProposed        = "proposed/"
	folderAccepted        = "accepted/"
	folderRollouts        = "rollouts/"
	folderBisects         = "bisects/"
	folderElections       = "elections/"
	folderOperators       = "operators/"
	folderRevoked         = "revoked/"
	folderAdmissions      = "gates/"
	folderRolloutProgress = "standings/"
	folderUnderlays       = "underlays/"
	folderFormats         = "formats/"
	folderDamaged         = "damaged/"
)

// The folders of keys that other packages own: their owners list and watch them.
const (
	InNodes           = kv.Prefix(folderNodes)
	InTokens          = kv.Prefix(folderTokens)
	InGenerations     = kv.Prefix(folderGenerations)
	InPushes          = kv.Prefix(folderPushes)
	InOwners          = kv.Prefix(folderOwners)
	InOutboxes        = kv.Prefix(folderOutboxes)
	InPreviews        = kv.Prefix(folderPreviews)
	InProposed        = kv.Prefix(folderProposed)
	InAccepted        = kv.Prefix(folderAccepted)
	InOperators       = kv.Prefix(folderOperators)
	InRevoked         = kv.Prefix(folderRevoked)
	InRollouts        = kv.Prefix(folderRollouts)
	InBisects         = kv.Prefix(folderBisects)
	InAdmissions      = kv.Prefix(folderAdmissions)
	InRolloutProgress = kv.Prefix(folderRolloutProgress)
	InUnderlays       = kv.Prefix(folderUnderlays)
	InFormats         = kv.Prefix(folderFormats)
	InElections       = kv.Prefix(folderElections)
)

// KeyTexts returns the texts of a key below its folder, "" for a key without a folder. It leaves a segment unchanged
// that is not an output of Escape.
func KeyTexts(k kv.Key) []string {
	segments := strings.Split(string(k), "/")[1:]
	for i, s := range segments {
		if text, err := Unescape(s); err == nil {
			segments[i] = text
		}
	}
	return segments
}

// HeadKey is the key that every write of a layer updates: watching it shows each revision.
func HeadKey() kv.Key { return keyHead }

// FleetKey is the key of the values that all controllers of a fleet share.
func FleetKey() kv.Key { return keyFleet }

// FormatKey is the key of the store's key format and of the oldest format that a controller must support.
func FormatKey() kv.Key { return folderFormats + "store" }

// MigratedKey is the key of the versions to which the layers were migrated.
func MigratedKey() kv.Key { return folderFormats + "layers" }

// PruneKey is the key of the first revision of a pruned history.
func PruneKey() kv.Key { return folderFormats + "history" }

// RestoringKey exists while a restore is running or interrupted. Only the restore writes then.
func RestoringKey() kv.Key { return keyRestoring }

// RevisionKey is the key of a revision's record. The number has 16 hex digits, so that keys sort like revisions.
func RevisionKey(number uint64) kv.Key {
	return kv.Key(folderRevisions + fmt.Sprintf("%016x", number))
}

// NodeKey is the key of a joined node, by its ID.
func NodeKey(id string) kv.Key { return key(folderNodes, id) }

// NameKey is the key of the ID of a node, by its name.
func NameKey(name string) kv.Key { return key(folderNames, name) }

// TokenKey is the key of the open join token of a name.
func TokenKey(name string) kv.Key { return key(folderTokens, name) }

// GenerationKey is the key of the generation of a node's desired config.
func GenerationKey(id string) kv.Key { return key(folderGenerations, id) }

// PushKey is the key of the persistent state of a node's pushes.
func PushKey(id string) kv.Key { return key(folderPushes, id) }

// DamagedKey is the key of a node's push state that was unreadable when the node joined again.
func DamagedKey(id string) kv.Key { return key(folderDamaged, id) }

// OwnerKey is the key of the replica and the stream that own a node.
func OwnerKey(id string) kv.Key { return key(folderOwners, id) }

// OutboxKey is the key of a request to the owner of a node.
func OutboxKey(id, request string) kv.Key { return key(folderOutboxes, id, request) }

// PreviewKey is the key of a node's answer to a preview.
func PreviewKey(preview, id string) kv.Key { return key(folderPreviews, preview, id) }

// ProposedKey is the key of the base config that a node proposed for its board.
func ProposedKey(id string) kv.Key { return key(folderProposed, id) }

// AcceptedKey is the key of the base config that an operator has accepted for a board.
func AcceptedKey(board string) kv.Key { return key(folderAccepted, board) }

// RolloutKey is the key of the state of a rollout.
func RolloutKey(id string) kv.Key { return key(folderRollouts, id) }

// BisectKey is the key of the last search for the revision that made a node bad, by the node that tests.
func BisectKey(id string) kv.Key { return key(folderBisects, id) }

// AdmissionKey is the key of the config that a staged rollout admits for a node.
func AdmissionKey(id string) kv.Key { return key(folderAdmissions, id) }

// ProgressKey is the key of a node's progress in a staged rollout: whether it has its desired config.
func ProgressKey(id string) kv.Key { return key(folderRolloutProgress, id) }

// UnderlayKey is the key of a node's reported port addresses, if it is a described peer or a member of a deployed
// cluster: the tunnels of others lead there.
func UnderlayKey(id string) kv.Key { return key(folderUnderlays, id) }

// ElectionKey is the key of the winner of an election.
func ElectionKey(name string) kv.Key { return key(folderElections, name) }

// OperatorKey is the key of an operator's token, by its hash.
func OperatorKey(hash string) kv.Key { return key(folderOperators, hash) }

// RevokedKey marks a node's certificates as revoked.
func RevokedKey(id string) kv.Key { return key(folderRevoked, id) }

// PreviewsBelow is the prefix of the answers to one preview.
func PreviewsBelow(preview string) kv.Prefix { return key(folderPreviews, preview).Below() }

func objectKey(hash string) kv.Key { return kv.Key(folderObjects + hash) }

func setKey(id string, part int) kv.Key {
	return kv.Key(fmt.Sprintf("%s%s/%08x", folderSets, id, part))
}

func key(folder string, names ...string) kv.Key {
	for i, name := range names {
		names[i] = Escape(name)
	}
	return kv.Key(folder + strings.Join(names, "/"))
}

const hexDigits = "0123456789ABCDEF"

// Escape turns any text into one segment of a key: ASCII letters, digits, '-', '_' and a '.' that is not the first byte
// are kept, every other byte becomes %XX, and the empty text becomes "%". Equal segments are equal texts.
func Escape(text string) string {
	if text == "" {
		return "%"
	}
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; isPlain(c, i) {
			b.WriteByte(c)
		} else {
			b.WriteString(string([]byte{'%', hexDigits[c>>4], hexDigits[c&15]}))
		}
	}
	return b.String()
}

func isPlain(c byte, at int) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' &&
		at > 0
}

// Unescape parses the output of Escape and accepts nothing else: a text has one segment only.
func Unescape(segment string) (string, error) {
	if segment == "%" {
		return "", nil
	}
	var b []byte
	for i := 0; i < len(segment); i++ {
		if segment[i] != '%' {
			b = append(b, segment[i])
			continue
		}
		if i+3 > len(segment) {
			return "", badSegment(segment)
		}
		c, err := strconv.ParseUint(segment[i+1:i+3], 16, 8)
		if err != nil {
			return "", badSegment(segment)
		}
		b = append(b, byte(c))
		i += 2
	}
	if text := string(b); Escape(text) == segment {
		return text, nil
	}
	return "", badSegment(segment)
}

func badSegment(segment string) error {
	return fmt.Errorf("segment of a key: invalid value %s: must be spelled by Escape", config.Quote(segment))
}
