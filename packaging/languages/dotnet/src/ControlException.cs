using System;

namespace PykafkaBroker
{
    /// <summary>A refusal of the broker, with its sentence; records that are not as a test has asserted are one, too.</summary>
    public sealed class ControlException : Exception
    {
        internal ControlException(int status, string detail, string? code)
            : base(detail)
        {
            Status = status;
            Code = code;
        }

        /// <summary>The status of HTTP.</summary>
        public int Status { get; }

        /// <summary>The name of Kafka's error, or null if none is behind it.</summary>
        public string? Code { get; }
    }
}
