# frozen_string_literal: true

require 'timeout'
require_relative 'documents'

module PuppetX
  module ConfigDB
    # PuppetClient asks by Puppet's own HTTP client: its connections, its trust and the agent's certificate.
    module PuppetClient
      # The time is over. It is an error that Puppet's pool sees: the connection is not used again.
      class Late < StandardError; end

      AWAY = [Late, Puppet::HTTP::HTTPError, Puppet::SSL::SSLError, SystemCallError, SocketError, IOError].freeze

      class << self
        def get(uri, headers, options)
          began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
          given = { redirect_limit: 0, basic_auth: options.basic }.compact.merge(trust(options['ca_file']))
          Timeout.timeout(options.timeout, Late) do
            r = Puppet.runtime[:http].get(uri, headers: headers, options: given)
            Answer.new(r.code, r['ETag'], r.body)
          end
        rescue *AWAY => e
          late = Process.clock_gettime(Process::CLOCK_MONOTONIC) - began >= options.timeout
          raise Away, "#{uri}: #{late ? "no answer within #{options.timeout} s" : e.message}"
        end

        # The documents of this process, for all its compilations.
        def documents
          @documents ||= Documents.new(self)
        end

        # Calls the block with a document, once for each compilation; what a function may raise is Puppet's.
        def document(options, context)
          o = Options.new(options, Options::HIERA5)
          data = documents.get(o.address, o) do |warning|
            Puppet.warning(warning)
            context.explain { warning }
          end
          context.explain { "#{o.address}: ConfigDB has no such resource" } unless data
          data || {}
        rescue Error => e
          raise Puppet::DataBinding::LookupError, e.message
        end

        private

        # What is trusted as Puppet trusts it: the system's CAs and Puppet's, with a file also those in it. The agent
        # shows its certificate, if it has one, either way. It is made anew when the file changes: Puppet's pool keeps connections
        # apart by it.
        def trust(ca_file)
          return { include_system_store: true } unless ca_file

          stat = File.stat(ca_file)
          stamp = [ca_file, stat.ino, stat.mtime, stat.size]
          known, context = @trust
          return { ssl_context: context } if known == stamp

          context = Puppet::SSL::SSLProvider.new.create_system_context(
            cacerts: Puppet::X509::CertProvider.new.load_cacerts || [], path: ca_file, include_client_cert: File.exist?(Puppet[:hostprivkey])
          )
          @trust = [stamp, context]
          { ssl_context: context }
        rescue SystemCallError => e
          raise Error, "ca_file: #{e.message}"
        end
      end
    end
  end
end
