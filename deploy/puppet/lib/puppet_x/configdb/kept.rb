# frozen_string_literal: true

require 'digest'
require 'fileutils'

module PuppetX
  module ConfigDB
    # One document as it was answered: its text, and the tag by which the controller knows it.
    Entry = Struct.new(:etag, :body)

    # Kept is the documents of earlier answers: those asked for last in memory, for all threads of the process, and in
    # files where a folder is given. A file is whole or counts as none.
    class Kept
      LIMIT = 64 << 20 # bytes of documents in memory

      def initialize(limit = LIMIT)
        @limit = limit
        @size = 0
        @entries = {} # the one used last is the last
        @mutex = Mutex.new
      end

      def read(id, dir)
        @mutex.synchronize do
          entry = @entries.delete(id)
          return @entries[id] = entry if entry
        end
        entry = dir && read_file(path(dir, id))
        remember(id, entry) if entry
        entry
      end

      # Gives why a file could not be written, or nil.
      def write(id, dir, entry)
        remember(id, entry)
        dir && write_file(dir, path(dir, id), entry)
      end

      def forget(id, dir)
        @mutex.synchronize { drop(id) }
        FileUtils.rm_f(path(dir, id)) if dir
        nil
      end

      private

      def path(dir, id)
        File.join(dir, "#{id}.configdb")
      end

      def remember(id, entry)
        @mutex.synchronize do
          drop(id)
          @entries[id] = entry
          @size += entry.body.bytesize
          drop(@entries.first[0]) while @size > @limit
        end
      end

      def drop(id)
        old = @entries.delete(id)
        @size -= old.body.bytesize if old
      end

      def read_file(file)
        etag, sum, body = File.read(file, encoding: 'UTF-8').split("\n", 3)
        Entry.new(etag, body) if body && sum == Digest::SHA256.hexdigest(body)
      rescue SystemCallError
        nil
      end

      # The documents have secrets in them: only who runs Puppet may read them.
      def write_file(dir, file, entry)
        FileUtils.mkdir_p(dir, mode: 0o700)
        part = "#{file}.#{Process.pid}.#{Thread.current.object_id}"
        File.open(part, File::WRONLY | File::CREAT | File::TRUNC, 0o600) do |f|
          f.write(entry.etag, "\n", Digest::SHA256.hexdigest(entry.body), "\n", entry.body)
        end
        File.rename(part, file)
        nil
      rescue SystemCallError => e
        "cache_dir #{dir}: #{e.message}"
      end
    end
  end
end
