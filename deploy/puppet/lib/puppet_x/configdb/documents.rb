# frozen_string_literal: true

require 'json'
require_relative 'kept'
require_relative 'options'

module PuppetX
  module ConfigDB
    # What a transport brings: the status, the tag and the text.
    Answer = Struct.new(:status, :etag, :body)

    # No answer came, or one that says to try later.
    class Away < Error; end

    # Documents asks for documents, with the tag of what it had before: what did not change is not sent again.
    #
    # A transport has get(uri, headers, options), which gives an Answer or raises Away. What is worth a warning is
    # given to the block of get.
    class Documents
      def initialize(transport, kept = Kept.new)
        @transport = transport
        @kept = kept
      end

      # The object at an address, or nil if the controller has no such resource. on_error says what
      # becomes of a controller that is away; one that refuses is an error whatever it says.
      def get(address, options, &warn)
        uri = Options.parse(address)
        id = options.identity(uri.to_s)
        had = @kept.read(id, options['cache_dir'])
        begin
          answer = ask(uri, options, had)
        rescue Away => e
          return instead(e, options, had, &warn)
        end
        take(uri, options, id, had, answer, &warn)
      end

      private

      def ask(uri, options, had)
        headers = { 'Accept' => 'application/json' }.merge(options.headers)
        headers['If-None-Match'] = had.etag if had && !had.etag.empty?
        answer = @transport.get(uri, headers, options)
        raise Away, "#{uri}: #{said(answer)}" if answer.status >= 500 || [408, 429].include?(answer.status)

        answer
      end

      def instead(error, options, had)
        case options.on_error
        when 'ignore'
          yield "ConfigDB is away, and its data is left out: #{error.message}"
          nil
        when 'stale'
          raise Error, "#{error.message}, and nothing is kept of earlier answers" unless had

          yield "ConfigDB is away, and what it said before is used: #{error.message}"
          parse(had.body, 'what is kept')
        else
          raise error
        end
      end

      def take(uri, options, id, had, answer)
        case answer.status
        when 200
          data = parse(answer.body, uri)
          failed = @kept.write(id, options['cache_dir'], Entry.new(answer.etag.to_s, answer.body))
          yield failed if failed
          data
        when 304
          raise Error, "#{uri}: 304, though nothing was known before" unless had

          parse(had.body, uri)
        when 404
          raise Error, "#{uri}: #{said(answer)}" if options['strict']

          @kept.forget(id, options['cache_dir'])
        else
          raise Error, "#{uri}: #{said(answer)}"
        end
      end

      # Any depth is allowed: the controller has bounds of its own.
      def parse(text, where)
        text = text.to_s.dup.force_encoding(Encoding::UTF_8)
        raise Error, "#{where}: is not UTF-8" unless text.valid_encoding?

        data = JSON.parse(text, max_nesting: false)
        raise Error, "#{where}: #{data.class}: an object is needed" unless data.is_a?(Hash)

        data
      rescue JSON::ParserError
        raise Error, "#{where}: is no JSON: the address of ConfigDB is wanted"
      end

      # The status, and the reason that the controller gives for it.
      def said(answer)
        reason = JSON.parse(answer.body.to_s)['msg']
        "#{answer.status}: #{reason.to_s[0, 300]}"
      rescue JSON::ParserError, NoMethodError, TypeError
        answer.status.to_s
      end
    end
  end
end
